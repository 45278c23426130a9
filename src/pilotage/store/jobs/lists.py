"""The jobs of one task for people: in pages, sorted, and grouped by error and queue.

Times in s, memory in MB.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    and_,
    bindparam,
    case,
    cast,
    func,
    null,
    or_,
    select,
    union_all,
)

from pilotage.model.records.counters import JOBS_BY_QUEUE, JOBS_BY_TASK
from pilotage.model.records.runs import JobRun
from pilotage.model.records.states import AT_A_PILOT, ENDED, JOBS_NOT_STARTED, LIVE_JOBS, LIVE_TASKS, JobState
from pilotage.model.records.work import TaskSpec
from pilotage.model.rules.likely_ends import Progress
from pilotage.model.rules.plain_states import PlainWord, engine_states
from pilotage.model.values.error_lines import telling_line
from pilotage.model.values.scopes import name_of
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.keyset import ListOrder, ListPage, Position
from pilotage.store.database.rows import among
from pilotage.store.jobs import job_counts, runs
from pilotage.store.jobs import table as job_rows
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.failures import FailedGroup, LastFailure, failed_groups
from pilotage.store.jobs.table import JOB_VIEW, JobView, job_inputs, jobs
from pilotage.store.queues.federations import Federations
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import SpecCache, tasks

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


MOST_ERRORS = 5000
"""Most different error texts of a task to group; texts of most jobs first."""

MOST_GROUPS = 200
"""Most groups of failed jobs that are shown."""

MOST_RUNS = 500
"""Most finished jobs of a task to read the runs of: the first ones by number."""

MOST_RUNNING = 10_000
"""Most jobs of a task at pilots to read the starts of."""


_IN_LINE = (JobState.PENDING, JobState.DEFINED, JobState.ASSIGNED, JobState.ACTIVATED)
_t, _c = tasks.c, counts.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob(JobView):
    """A job of a list.

    ``wait`` is the time in s from its creation to the start of its last attempt, or until now. ``run`` is the
    time in s that its last attempt ran; None before it starts. ``reason`` is the most useful line of the
    error. ``inputs`` are the names of its input files on request, but not for merge jobs. ``parameters`` are
    empty unless requested.
    """

    wait: float
    run: float | None
    reason: str
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """The page of a task's jobs to list: a state, or a word that people see (both: either), only failed ones,
    the sorting, and the cursor."""

    state: JobState | None = None
    word: PlainWord | None = None
    failed: bool = False
    sort: JobSort = "id"
    limit: int = 100
    after: str = ""
    inputs: bool = False
    parameters: bool = False

    @property
    def states(self) -> tuple[JobState, ...]:
        """The states of its jobs; empty: any."""
        return (*filter(None, [self.state]), *(engine_states(self.word) if self.word else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class UseAtQueue:
    """Resources that the last attempts of a task's ended jobs used at a queue (s, MB).

    ``failed`` of the ``jobs`` failed.
    """

    queue: str
    jobs: int
    failed: int
    wall_seconds: float
    cpu_seconds: float
    failed_wall_seconds: float
    max_rss: float | None
    max_workdir: float | None


_INPUTS = (
    select(job_inputs.c.job, job_inputs.c.file)
    .where(among(job_inputs.c.job, "ids"))
    .order_by(job_inputs.c.job, job_inputs.c.position)
)


_OF_TASKS = JOB_VIEW.where(among(_j.task, "tasks")).order_by(_j.id)


_waiting_jobs = (
    select(func.sum(_c.count))
    .where(_c.counter == JOBS_BY_TASK, _c.first == cast(_t.id, String))
    .where(_c.state.in_([str(state) for state in _IN_LINE]))
    .correlate(tasks)
    .scalar_subquery()
)
_line = (
    select(func.coalesce(_waiting_jobs, 0).label("jobs"))
    .where(is_state(tasks, *LIVE_TASKS), _t.share == bindparam("share"), _t.held == "")
    .where(
        or_(
            _t.priority > bindparam("priority"),
            and_(_t.priority == bindparam("priority"), _t.id < bindparam("task")),
        )
    )
    .subquery()
)
_AHEAD = select(func.count(), func.sum(_line.c.jobs)).where(_line.c.jobs > 0)

_SLOTS = select(func.sum(_c.count)).where(
    _c.counter == JOBS_BY_QUEUE,
    _c.second == bindparam("share"),
    _c.state.in_([str(state) for state in AT_A_PILOT]),
)


class JobLists:
    """Reads the jobs of tasks. Nothing here changes anything."""

    def __init__(self, database: Database, federations: Federations, specs: SpecCache) -> None:
        self._database = database
        self._federations = federations
        self._specs = specs

    def page(self, task: int, page: JobPage, time: float) -> ListPage[ListedJob]:
        """Return jobs of a task at a time. Raises ``BadCursor``.

        All pages of a sorted list use the waits and runs at the time of the first page.
        """
        position = order_of(page.sort, time).position(page.after)
        begun = position.time if position and page.sort != "id" else time
        order = order_of(page.sort, begun)

        def read(connection: Connection) -> ListPage[ListedJob]:
            counts = _counts(connection, task, page)
            query = JOB_VIEW.add_columns(
                wait_of(time).label("wait"), run_of(time).label("run"), *order.values()
            )
            query = query.where(*_among_states(task, page, order, position, counts))
            rows, following = order.read(connection, query, page.limit, begun)
            sites = self._federations.sites(connection)
            specs = self._specs.of(connection, [task]) if page.parameters else {}
            listed = [_listed(row, sites, specs) for row in rows]
            listed = _with_inputs(connection, listed) if page.inputs else listed
            total = sum(counts.get(state, 0) for state in page.states or counts)
            return ListPage(listed, total, counts, following)

        return self._database.read(read)

    def of_tasks(self, numbers: Sequence[int]) -> dict[int, JobView]:
        """Return the newest job of each of these tasks, by task. Sites and parameters are left out."""
        values = {"tasks": list(numbers)}
        rows = self._database.read(lambda connection: connection.execute(_OF_TASKS, values).all())
        return {row.task: JobView(**job_rows.view_fields(row, {}, {})) for row in rows}

    def runs(self, task: int) -> Iterator[JobRun]:
        """Yield the last attempts of a task's jobs by number, read page by page."""
        after = 0
        while page := self._database.read(partial(self._runs, task, after)):
            yield from page
            after = page[-1].job

    def _runs(self, task: int, after: int, connection: Connection) -> list[JobRun]:
        return runs.page_of(connection, RecordReader(connection, self._specs), task, after)

    def by_queue(self, task: int) -> dict[str, dict[str, int]]:
        """Return the number of a task's jobs by queue and state. Jobs without a queue have an empty name."""
        query = select(_j.queue, _j.state, func.count()).where(_j.task == task).group_by(_j.queue, _j.state)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        counts: dict[str, dict[str, int]] = {}
        for queue, state, count in sorted(rows):
            counts.setdefault(queue, {})[state] = count
        return counts

    def use(self, task: int) -> list[UseAtQueue]:
        """Return the resources that a task's jobs used, by queue, most wall time first."""
        wall, failed = func.coalesce(_j.wall_seconds, 0.0), is_state(jobs, JobState.FAILED)
        query = (
            select(
                _j.queue,
                func.count(),
                func.sum(case((failed, 1), else_=0)),
                func.sum(wall),
                func.sum(func.coalesce(_j.cpu_seconds, 0.0)),
                func.sum(case((failed, wall), else_=0.0)),
                func.max(_j.max_rss),
                func.max(_j.max_workdir),
            )
            .where(_j.task == task, _j.wall_seconds.is_not(None), _j.queue != "")
            .group_by(_j.queue)
            .order_by(func.sum(wall).desc(), _j.queue)
        )
        names = [field.name for field in fields(UseAtQueue)]
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [UseAtQueue(**dict(zip(names, row, strict=True))) for row in rows]

    def ahead(self, share: str, priority: int, task: int) -> tuple[int, int]:
        """Return how many tasks of a share come before a task, and their jobs that have not started.

        They have a higher priority, or the same and a smaller number. Held tasks do not count, because they
        wait for a person.
        """
        values = {"share": share, "priority": priority, "task": task}
        row = self._database.read(lambda connection: connection.execute(_AHEAD, values).one())
        return int(row[0]), int(row[1] or 0)

    def progress(self, task: int, share: str, time: float) -> Progress:
        """Return how long a task's finished jobs and its jobs at pilots ran, and the slots of its share."""
        mine = (_j.task == task, _j.kind != "merge")
        runs = (
            select(_j.wall_seconds)
            .where(*mine, is_state(jobs, JobState.FINISHED), _j.wall_seconds.is_not(None))
            .order_by(_j.id)
            .limit(MOST_RUNS)
        )
        began = case((is_state(jobs, JobState.RUNNING), _j.started), else_=time)
        running = select(time - began).where(*mine, has_state(jobs, *AT_A_PILOT)).limit(MOST_RUNNING)

        def read(connection: Connection) -> Progress:
            return Progress(
                runs=connection.execute(runs).scalars().all(),
                running=[max(0.0, run or 0.0) for run in connection.execute(running).scalars()],
                slots=int(connection.execute(_SLOTS, {"share": share}).scalar() or 0),
            )

        return self._database.read(read)

    def last_failures(self, task: int, limit: int) -> list[LastFailure]:
        """Return how a task's jobs failed, also retried ones, by id."""
        query = (
            select(_j.id, _j.kind, _j.queue, _j.exit_code, _j.error, _j.state)
            .where(_j.task == task, _j.error != "", _j.state != str(JobState.CANCELLED))
            .order_by(_j.id)
            .limit(limit)
        )
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [LastFailure(**{**row._mapping, "state": JobState(row.state)}) for row in rows]

    def failed(self, task: int) -> tuple[list[FailedGroup], int]:
        """Return the failed jobs of a task by error and queue, most jobs first, and how many are left out."""
        count = func.count().label("many")
        query = (
            select(_j.queue, _j.exit_code, _j.error, _j.state, count, func.min(_j.id), func.sum(count).over())
            .where(_j.task == task, _has_failed())
            .group_by(_j.queue, _j.exit_code, _j.error, _j.state)
            .order_by(count.desc())
            .limit(MOST_ERRORS)
        )
        rows = self._database.read(lambda connection: connection.execute(query).all())
        all_ = int(rows[0][-1]) if rows else 0
        groups = failed_groups(rows)[:MOST_GROUPS]
        return groups, max(0, all_ - sum(group.failed + group.retried for group in groups))


def _with_inputs(connection: Connection, listed: Sequence[ListedJob]) -> list[ListedJob]:
    inputs: dict[int, list[str]] = {job.id: [] for job in listed}
    # Leave out inputs of merge jobs: they are all outputs of the task.
    ids = [job.id for job in listed if job.kind != "merge"]
    for job, file in connection.execute(_INPUTS, {"ids": ids}):
        inputs[job].append(name_of(file))
    return [replace(job, inputs=tuple(inputs[job.id])) for job in listed]


def _listed(row: Any, sites: Mapping[str, str], specs: Mapping[int, TaskSpec]) -> ListedJob:
    run = None if row.run is None else max(0.0, row.run)
    view = job_rows.view_fields(row, sites, specs)
    return ListedJob(**view, wait=max(0.0, row.wait), run=run, reason=telling_line(row.error))


def _has_failed() -> ColumnElement[bool]:
    """Return the condition that a job failed for good, or is tried again after a failed attempt."""
    return or_(is_state(jobs, JobState.FAILED), and_(is_state(jobs, *LIVE_JOBS), _j.error != ""))


def _counts(connection: Connection, task: int, page: JobPage) -> dict[JobState, int]:
    """Count the jobs of a page's list by state, in the order of states."""
    if page.failed:
        query = select(_j.state, func.count()).where(_j.task == task, _has_failed()).group_by(_j.state)
        return job_counts.of_query(connection, query, JobState)
    return job_counts.in_order(job_counts.of_tasks(connection, [str(task)]).get(str(task), {}), JobState)


def _among_states(
    task: int, page: JobPage, order: ListOrder, position: Position | None, counts: Iterable[JobState]
) -> list[ColumnElement[bool]]:
    """Return the conditions for jobs of a page. ``counts`` has the states of the task's jobs."""
    states = page.states or tuple(counts)
    conditions = [_j.task == task, *order.after(position), *([_has_failed()] if page.failed else [])]
    if order.key is not None or not states:
        return [*conditions, *([is_state(jobs, *page.states)] if page.states else [])]
    # The index has a task's jobs by state, then by id. So read the first jobs of each state.
    firsts = [
        select(_j.id)
        .where(*conditions, is_state(jobs, state))
        .order_by(*order.columns())
        .limit(page.limit + 1)
        .subquery()
        for state in states
    ]
    return [_j.id.in_(union_all(*(select(first.c.id) for first in firsts)))]
