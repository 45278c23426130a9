"""What jobs are sorted by in lists: their waits and runs at a time, and columns."""

from typing import Any, Literal

from sqlalchemy import ColumnElement, case, func, null

from pilotage.model.records.states import ENDED, JOBS_NOT_STARTED, JobState
from pilotage.store.database.columns import is_state
from pilotage.store.tables.jobs import jobs
from pilotage.store.views.keyset import ListOrder

JobSort = Literal["id", "wait", "run", "memory", "attempt", "since", "exit", "queue", "state"]
"""What jobs are sorted by: numbers from the largest down, ids and words upwards."""

_UNSTARTED = (*JOBS_NOT_STARTED, JobState.SENT, JobState.STARTING)
_ENDED = tuple(state for state in JobState if state in ENDED["job"])
_j = jobs.c


def _start() -> ColumnElement[Any]:
    # The start of an earlier attempt stays in the row until the next one starts.
    return case((is_state(jobs, *_UNSTARTED), null()), else_=_j.started)


def _end(time: float) -> ColumnElement[Any]:
    return case((is_state(jobs, *_ENDED), func.coalesce(_j.ended, _j.since)), else_=time)


def wait_of(time: float) -> ColumnElement[Any]:
    """Return how long a job waited for the start of its last attempt, or waits at a time, in s."""
    return func.coalesce(_start(), _end(time)) - _j.created


def run_of(time: float) -> ColumnElement[Any]:
    """Return how long a job's last attempt ran, or has run at a time, in s; null before its start."""
    goes_on = is_state(jobs, *_UNSTARTED, JobState.RUNNING)
    return case((goes_on, time - _start()), else_=func.coalesce(_j.wall_seconds, _end(time) - _start()))


def order_of(sort: JobSort, time: float) -> ListOrder:
    """Return the order of a list that is sorted by a column, for values at a time."""
    numbers: dict[str, Any] = {
        "wait": wait_of(time),
        "run": run_of(time),
        "memory": _j.max_rss,
        "attempt": _j.attempt,
        "since": _j.since,
    }
    words: dict[str, Any] = {"queue": _j.queue, "state": _j.state}
    if sort in numbers:
        key = func.coalesce(numbers[sort], -1)
        return ListOrder(name=sort, id=_j.id, key=key, is_id_descending=False)
    if sort == "exit":
        key = func.coalesce(_j.exit_code, -1)
        return ListOrder(name=sort, id=_j.id, key=key, is_key_descending=False, is_id_descending=False)
    return ListOrder(
        name=sort,
        id=_j.id,
        key=words.get(sort),
        is_key_descending=False,
        is_id_descending=False,
        is_text=True,
    )
