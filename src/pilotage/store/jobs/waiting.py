"""Tasks with jobs to broker, and the first of these jobs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import CTE, Select, bindparam, func, literal, select

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job
from pilotage.model.values.types import LARGEST_ID
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import JOB_COLUMNS, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import is_live, tasks

MOST_TASKS = 100_000
"""Most tasks listed. All are compared, though a pass takes only the first by priority."""

_j, _t, _c = jobs.c, tasks.c, counts.c
_ID, _TASK, _PRIORITY = (
    [column.name for column in JOB_COLUMNS].index(name) for name in ("id", "task", "priority")
)
_LIMIT: Any = bindparam("limit", type_=None)


class Waiting(NamedTuple):
    """A task with waiting jobs: their number, and the share and priority of the first."""

    task: int
    share: str
    priority: int
    jobs: int


Apart = Collection[int]
"""Tasks that a pass skips."""

Parts = Callable[[Callable[[], Sequence[Waiting]]], Mapping[int, int]]
"""Returns the most jobs to read of each task, given a function that lists waiting tasks by priority, then
age."""


def _tasks_with_jobs(state: JobState) -> Select[Any]:
    """Return the query for tasks with their share and priority, by priority, then age."""
    candidates = (
        _stepped(state) if state in _INDEXED else select(_t.id.label("task")).where(is_live).subquery()
    )
    oldest = (
        select(func.min(_j.id)).where(is_state(jobs, state), _j.task == candidates.c.task).scalar_subquery()
    )
    # With a limit, a planner always steps from task to task.
    each = select(candidates.c.task, oldest.label("job")).where(candidates.c.task.is_not(None))
    each = each.where(~among(candidates.c.task, "apart")).limit(_LIMIT)
    heads = each.subquery("heads").c
    share, priority = (
        select(column).where(_j.id == heads.job).scalar_subquery() for column in (_j.share, _j.priority)
    )
    query = select(heads.task, share, priority.label("priority")).where(heads.job.is_not(None))
    return query.add_columns(heads.job).order_by(priority.desc(), heads.job)


def _stepped(state: JobState) -> CTE:
    """Return the tasks with jobs in a state, by stepping through its index."""
    first = select(func.min(_j.task).label("task")).where(is_state(jobs, state)).cte("found", recursive=True)
    following = (
        select(func.min(_j.task)).where(is_state(jobs, state), _j.task > first.c.task).scalar_subquery()
    )
    return first.union_all(select(following).where(first.c.task.is_not(None)))


def _oldest_of_each(state: JobState) -> Select[Any]:
    """Return the query for the first jobs of these tasks: ``skip`` + 1 of each, or all if there are fewer."""
    other_jobs = jobs.alias()
    last = (
        select(other_jobs.c.id)
        .where(other_jobs.c.task == _t.id, is_state(other_jobs, state))
        .order_by(other_jobs.c.id)
        .limit(1)
        .offset(bindparam("skip", type_=None))
        .scalar_subquery()
    )
    bound = func.coalesce(last, literal(LARGEST_ID)).label("last")
    # Compute the heads once, before any job is read. On SQLite a limit is enough. PostgreSQL would compute
    # them again for each job if it expects that few wait beside a million ended ones.
    limits = select(_t.id, bound).where(among(_t.id, "tasks")).limit(_LIMIT).cte("bounds")
    bounds = limits.prefix_with("MATERIALIZED", dialect="postgresql").c
    return select(*JOB_COLUMNS).where(_j.task == bounds.id, is_state(jobs, state), _j.id <= bounds.last)


_NUMBERS = (
    select(_c.first, func.sum(_c.count))
    .where(_c.counter == JOBS_BY_TASK, _c.state == bindparam("state"), among(_c.first, "tasks"))
    .group_by(_c.first)
)
_HISTORIES = select(_j.id, _j.history).where(among(_j.id, "ids"))
_INDEXED = (JobState.DEFINED, JobState.PENDING)
"""States with an index by task. Activated jobs are searched in each live task."""
_BROKERED = (*_INDEXED, JobState.ACTIVATED)
_TASKS = {state: _tasks_with_jobs(state) for state in _BROKERED}
_JOBS = {state: _oldest_of_each(state) for state in _BROKERED}


def equally(limit: int) -> Parts:
    """Return equal parts for each task, about ``limit`` in all, or for the first ``limit`` tasks."""

    def parts(waiting: Callable[[], Sequence[Waiting]]) -> Mapping[int, int]:
        tasks_ = [entry.task for entry in waiting()[:limit]]
        return dict.fromkeys(tasks_, max(1, limit // max(1, len(tasks_))))

    return parts


def above(priority: int, limit: int) -> Parts:
    """Return equal parts for each task with a first job above a priority, about ``limit`` in all."""

    def parts(waiting: Callable[[], Sequence[Waiting]]) -> Mapping[int, int]:
        tasks_ = [entry.task for entry in waiting() if entry.priority > priority][:limit]
        return dict.fromkeys(tasks_, max(1, limit // max(1, len(tasks_))))

    return parts


def _heads(reader: RecordReader, state: JobState, excluded: Apart = ()) -> list[tuple[int, str, int, int]]:
    """Return the tasks with jobs in a state: the task, and share, priority and number of its oldest such
    job."""
    rows = reader.raw_rows(_TASKS[state], limit=MOST_TASKS, apart=excluded)
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def tasks_waiting(
    reader: RecordReader, state: JobState, excluded: Apart = (), pending_for_room: Set[int] = frozenset()
) -> list[Waiting]:
    """Return the tasks with jobs in a state that has an index by task, or with pending jobs."""
    numbers: Counter[int] = Counter()
    heads: dict[int, tuple[int, str, int, int]] = {}
    heads_by_state = {state: _heads(reader, state, excluded)}
    if pending_for_room:
        pending = _heads(reader, JobState.PENDING, excluded)
        heads_by_state[JobState.PENDING] = [row for row in pending if row[0] in pending_for_room]
    for each, rows in heads_by_state.items():
        counted = reader.raw_rows(_NUMBERS, state=str(each), tasks=[str(row[0]) for row in rows])
        numbers.update({int(task): int(jobs) for task, jobs in counted})
        for row in rows:
            heads[row[0]] = min(row, heads.get(row[0], row), key=_turn)
    in_order = heads.values() if len(heads_by_state) == 1 else sorted(heads.values(), key=_turn)
    return [Waiting(task, share, priority, numbers[task]) for task, share, priority, _ in in_order]


def _turn(head: tuple[int, str, int, int]) -> tuple[int, int]:
    return -head[2], head[3]


def oldest(
    reader: RecordReader,
    state: JobState,
    limit: int,
    parts: Parts,
    excluded: Apart = (),
    pending_for_room: Set[int] = frozenset(),
) -> tuple[Job, ...]:
    """Return the oldest jobs in a state of up to ``limit`` tasks, in ``parts``, by priority, then age.

    Skip the ``excluded`` tasks. Pending jobs of ``pending_for_room`` tasks count as in that state too.
    """
    tasks_by_most: dict[int, list[int]] = defaultdict(list)
    for task, part in parts(lambda: tasks_waiting(reader, state, excluded, pending_for_room)).items():
        tasks_by_most[part].append(task)
    rows: list[tuple[Any, ...]] = []
    for part, tasks_ in tasks_by_most.items():
        rows += reader.raw_rows(_JOBS[state], tasks=tasks_, skip=part - 1, limit=limit)
        if pending := [task for task in tasks_ if task in pending_for_room]:
            rows += reader.raw_rows(_JOBS[JobState.PENDING], tasks=pending, skip=part - 1, limit=limit)
            rows = _first_of(rows, dict.fromkeys(pending, part))
    return reader.with_inputs(sorted(rows, key=lambda row: (-row[_PRIORITY], row[_ID])))


def _first_of(rows: Iterable[tuple[Any, ...]], parts: Mapping[int, int]) -> list[tuple[Any, ...]]:
    """Return the oldest jobs, at most the given number of each task."""
    room = dict(parts)
    first_rows = []
    for row in sorted(rows, key=itemgetter(_ID)):
        if room.get(row[_TASK], 1) > 0:
            first_rows.append(row)
            if row[_TASK] in room:
                room[row[_TASK]] -= 1
    return first_rows


def tasks_pending_for_room(reader: RecordReader, cause: str) -> set[int]:
    """Return the tasks that have an oldest pending job with this cause."""
    heads = {row[3]: row[0] for row in _heads(reader, JobState.PENDING)}
    if not heads:
        return set()
    ids, histories = zip(*reader.raw_rows(_HISTORIES, ids=sorted(heads)), strict=True)
    pairs = zip(ids, reader.events(histories), strict=True)
    return {heads[job] for job, happened in pairs if happened and happened[-1].cause == cause}
