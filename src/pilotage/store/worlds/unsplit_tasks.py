"""Tasks that are not split, or not all of them: a pass reads no more of them than it makes jobs for."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import bindparam, select

from pilotage.model.records.spec import SCOUTS
from pilotage.model.records.states import TASKS_TO_SPLIT, TaskState
from pilotage.model.records.work import Task
from pilotage.store.database.columns import is_state
from pilotage.store.database.sets import among
from pilotage.store.tables.reader import RecordReader
from pilotage.store.tables.tasks import tasks

_t = tasks.c
_LIMIT: Any = bindparam("limit", type_=None)
_LONGEST_FIRST = (
    select(_t.id, _t.state, _t.planned_jobs)
    .where(is_state(tasks, *TASKS_TO_SPLIT), ~among(_t.id, "apart"))
    .order_by(_t.since, _t.id)
    .limit(_LIMIT)
)


def read(
    reader: RecordReader, limit: int, jobs: float, turn: int, apart: Collection[int] = ()
) -> tuple[Task, ...]:
    """The first ``limit`` by how long they waited; no more than take so many ``jobs``, ``turn`` of each.

    Tasks that are set ``apart`` are left out.
    """
    return reader.tasks(_first(reader.raw_rows(_LONGEST_FIRST, limit=limit, apart=apart), jobs, turn))


def _first(found: Iterable[tuple[Any, ...]], jobs: float, turn: int) -> list[int]:
    """The first of some tasks, with their states and planned jobs, that take so many jobs together."""
    first: list[int] = []
    for task, state, planned in found:
        if jobs <= 0:
            break
        # One that is not split at all may make its scouts alone, mostly as many as tasks have by themselves.
        jobs -= min(planned, SCOUTS if state == TaskState.REGISTERED else turn)
        first.append(task)
    return first
