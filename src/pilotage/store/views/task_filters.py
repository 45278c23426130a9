"""Which tasks are listed: by name, owner, VO, label, and site of their jobs."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, exists, func

from pilotage.model.records.states import LIVE_JOBS, JobState
from pilotage.store.database.columns import is_state
from pilotage.store.database.dialects import Dialect
from pilotage.store.tables.jobs import jobs
from pilotage.store.tables.tasks import tasks

_t, _j = tasks.c, jobs.c


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Conditions that a listed task meets, all of them. Empty ones hold for every task."""

    name: str = ""
    """Its name, with ``*`` for any characters and ``?`` for one."""
    owner: str = ""
    """The name of its owner, in any VO."""
    vo: str = ""
    """The VO of its owner."""
    labels: tuple[str, ...] = ()
    """Labels that it has, all of them: ``NAME=TEXT``, or ``NAME`` with any text."""
    queues: tuple[str, ...] | None = None
    """One of its jobs that has not ended well is at one of these queues; none: no condition."""


EVERY_TASK = TaskFilter()


def conditions(wanted: TaskFilter, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    """Yield the filter as conditions on rows of tasks."""
    if wanted.name:
        operator, pattern = dialect.matches(wanted.name)
        yield _t.name.op(operator, is_comparison=True)(pattern)
    if wanted.owner:
        yield _t.owner == wanted.owner
    if wanted.vo:
        yield _t.vo == wanted.vo
    for label in wanted.labels:
        name, equals, value = label.partition("=")
        # LIKE of SQLite has no case, and texts of labels may hold its signs.
        find = getattr(func, dialect.find)
        yield find(_t.labels, f"\n{name}={value}\n" if equals else f"\n{name}=") > 0
    if wanted.queues is not None:
        open_ = is_state(jobs, *LIVE_JOBS, JobState.FAILED)
        # Each task's jobs have an index; a list of all such jobs would read the whole table first.
        yield exists().where(_j.task == _t.id, _j.queue.in_(wanted.queues), open_).correlate(tasks)
