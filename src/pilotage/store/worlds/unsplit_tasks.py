"""Tasks that are not completely split. A pass reads only as many as it makes jobs for."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from sqlalchemy import bindparam, select

from pilotage.model.records.spec import SCOUTS
from pilotage.model.records.states import TASKS_TO_SPLIT, TaskState
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among
from pilotage.store.tables.tasks import tasks
from pilotage.store.worlds.parts import Reading, WorldPart

_t = tasks.c
_LIMIT: Any = bindparam("limit", type_=None)
_LONGEST_FIRST = (
    select(_t.id, _t.state, _t.planned_jobs)
    .where(is_state(tasks, *TASKS_TO_SPLIT), _t.held == "", ~among(_t.id, "apart"))
    .order_by(_t.since, _t.id)
    .limit(_LIMIT)
)


def unsplit_tasks(jobs: float = inf, turn: int = 1) -> WorldPart:
    """Read the longest waiting tasks that together take ``jobs`` jobs, with ``turn`` of each."""

    def read(reading: Reading) -> Mapping[str, Any]:
        limit = int(min(reading.now.batch, jobs))
        found = reading.reader.raw_rows(_LONGEST_FIRST, limit=limit, apart=reading.now.apart)
        return {"tasks": reading.reader.tasks(_first(found, jobs, turn))}

    return WorldPart(("tasks",), read)


def _first(found: Iterable[tuple[Any, ...]], jobs: float, turn: int) -> list[int]:
    """Return the first tasks, from their states and planned jobs, that together take that many jobs."""
    first: list[int] = []
    for task, state, planned in found:
        if jobs <= 0:
            break
        # An unsplit task may first make only its scouts, usually the default number.
        jobs -= min(planned, SCOUTS if state == TaskState.REGISTERED else turn)
        first.append(task)
    return first
