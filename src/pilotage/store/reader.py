"""Parts for assembling worlds, all read over one connection at one moment."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache, partial
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select

from pilotage.model.circuit_breakers.breaker import LiftedBreaker
from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.world import JobCount, JobUsage, LinkCount, QueueReport, TaskCount, TaskQueue
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.counters import JOBS_BY_QUEUE, JOBS_BY_TASK, PILOTS_BY_QUEUE, TRANSFERS_BY_LINK
from pilotage.model.records.federation import Site
from pilotage.model.records.measured import USAGE
from pilotage.model.records.observations import WaitingResults
from pilotage.model.records.servers import Absence
from pilotage.model.records.states import LIVE_JOBS, LIVE_TRANSFERS, PilotState, TransferState
from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.model.records.work import File, Job, Pilot, Replica, Task, Transfer
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files import table as file_rows
from pilotage.store.files.table import FILE_COLUMNS, REPLICA_COLUMNS, files, replicas
from pilotage.store.history import history
from pilotage.store.history.history import EventView
from pilotage.store.jobs import table as job_rows
from pilotage.store.jobs.counters import counters, counts
from pilotage.store.jobs.table import INPUT_COUNT, JOB_COLUMNS, JOB_STATES, job_inputs, jobs
from pilotage.store.jobs.task_queues import LEVELS, lines
from pilotage.store.pilots import absences, waiting_results
from pilotage.store.pilots import table as pilot_rows
from pilotage.store.pilots.table import PILOT_COLUMNS
from pilotage.store.queues import advertisements, circuit_breakers
from pilotage.store.queues.last_seen import queue_reports
from pilotage.store.servers import iterations
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.table import TASK_COLUMNS, SpecCache, tasks
from pilotage.store.transfers import storages
from pilotage.store.transfers import table as transfer_rows
from pilotage.store.transfers.table import TRANSFER_COLUMNS, transfers

_c, _j = counts.c, jobs.c

PAGE = 2000
"""Jobs that are read together where a million may come."""

_INPUTS = (
    select(job_inputs.c.job, job_inputs.c.file)
    .where(among(job_inputs.c.job, "ids"))
    .order_by(job_inputs.c.job, job_inputs.c.position)
)
_TASKS = select(*TASK_COLUMNS).where(among(tasks.c.id, "ids")).order_by(tasks.c.id)
_FILES = select(*FILE_COLUMNS).where(among(files.c.name, "names")).order_by(files.c.name)
_OUTPUTS = (
    select(*FILE_COLUMNS).where(among(files.c.job, "ids"), files.c.job.is_not(None)).order_by(files.c.name)
)
_TASK_FILES = (
    select(*FILE_COLUMNS).where(among(files.c.task, "ids"), files.c.task.is_not(None)).order_by(files.c.name)
)
_OUTPUTS_OF_TASK = (
    select(*FILE_COLUMNS)
    .where(files.c.task == bindparam("task"), files.c.task.is_not(None), files.c.job.is_not(None))
    .where(files.c.name > bindparam("after"))
    .order_by(files.c.name)
    .limit(bindparam("limit", type_=None))
)
_REPLICAS = (
    select(*REPLICA_COLUMNS)
    .where(among(replicas.c.file, "names"))
    .order_by(replicas.c.file, replicas.c.storage)
)
_JOB_COUNTS = (
    select(_c.first, _c.second, _c.state, func.sum(_c.count))
    .where(_c.counter == JOBS_BY_QUEUE, _c.state.in_([str(s) for s in LIVE_JOBS]))
    .group_by(_c.first, _c.second, _c.state)
    .having(func.sum(_c.count) > 0)
    .order_by(_c.first, _c.second, _c.state)
)
_k = counters.c
_LINK_COUNTS = (
    select(_k.first, _k.second, func.sum(_k.count))
    .where(_k.counter == TRANSFERS_BY_LINK, _k.state.in_([str(s) for s in LIVE_TRANSFERS]), _k.count > 0)
    .group_by(_k.first, _k.second)
    .order_by(_k.first, _k.second)
)
_TASK_COUNTS = (
    select(_c.first, _c.state, func.sum(_c.count))
    .where(_c.counter == JOBS_BY_TASK, among(_c.first, "ids"))
    .group_by(_c.first, _c.state)
    .having(func.sum(_c.count) > 0)
)
_LEVELS = LEVELS.subquery("levels").c
_LEVELS_OF = LEVELS.where(among(lines.c.queue, "queues")).subquery("levels").c
_TASK_QUEUES, _TASK_QUEUES_OF = (
    select(level.queue, level.requirements, func.sum(level.jobs), func.max(level.priority))
    .group_by(level.queue, level.requirements)
    .order_by(level.queue, level.requirements)
    for level in (_LEVELS, _LEVELS_OF)
)
_USAGES = select(_j.id, *(_j[name] for name in USAGE)).where(among(_j.id, "ids")).order_by(_j.id)
_WORKERS = (
    select(_k.first, func.sum(_k.count))
    .where(
        _k.counter == PILOTS_BY_QUEUE,
        _k.state.in_([str(PilotState.SUBMITTED), str(PilotState.RUNNING)]),
        _k.count > 0,
    )
    .group_by(_k.first)
)
_RUNNING_PILOTS = select(_k.first, _k.count).where(
    _k.counter == PILOTS_BY_QUEUE, _k.state == str(PilotState.RUNNING), _k.count > 0
)

_QUEUE_REPORTS = select(queue_reports)
_OF_FILES = among(transfers.c.file, "names")

_NOTHING = (None, None, None)


# Reusing the same query object lets the driver run it without SQLAlchemy: see direct_statements.
@lru_cache(maxsize=256)
def _jobs_where(conditions: tuple[ColumnElement[bool], ...]) -> Select[Any]:
    return select(*JOB_COLUMNS).where(*conditions).order_by(_j.id)


@lru_cache(maxsize=256)
def _transfers_where(conditions: tuple[ColumnElement[bool], ...]) -> Select[Any]:
    return select(*TRANSFER_COLUMNS).where(*conditions).order_by(transfers.c.id)


@lru_cache(maxsize=256)
def _pilots_where(conditions: tuple[ColumnElement[bool], ...]) -> Select[Any]:
    return select(*PILOT_COLUMNS).where(*conditions)


@cache
def _transfer_in(states: tuple[TransferState, ...]) -> ColumnElement[bool]:
    return is_state(transfers, *states)


class RecordReader:
    """Reads records and counts, sorted by number or name unless a caller orders them."""

    def __init__(self, connection: Connection, specs: SpecCache) -> None:
        self.connection = connection
        """The transaction that it reads in."""
        self.raw_rows = partial(raw_rows, connection)
        """Returns the rows of a large query in the driver's form."""
        self._specs = specs

    def rows(self, query: Any, **values: Any) -> Sequence[Any]:
        """Return the rows of a query."""
        return self.connection.execute(query, values).all()

    def failed_deliveries(self) -> tuple[FailedDelivery, ...]:
        """Deliveries that failed through a storage (F4)."""
        return circuit_breakers.failed_deliveries(self.connection)

    def lifted_breakers(self) -> tuple[LiftedBreaker, ...]:
        """Circuit breakers that an operator has lifted lately."""
        return circuit_breakers.lifted(self.connection)

    def waiting_results(self, jobs: Sequence[int]) -> tuple[WaitingResults, ...]:
        """Results of these jobs that wait in sites' spools."""
        return waiting_results.of_jobs(self.connection, jobs)

    def absences(self) -> tuple[Absence, ...]:
        """Periods when no server ran (T)."""
        return absences.everything(self.connection)

    def storage_spaces(self) -> tuple[StorageSpace, ...]:
        """Return storages' reports of their free space (B18)."""
        return storages.read_spaces(self.connection)

    def events(self, histories: Iterable[str]) -> list[tuple[EventView, ...]]:
        """Return the transitions of each history."""
        return history.events(self.connection, histories)

    def jobs(self, query: Select[Any], **values: Any) -> tuple[Job, ...]:
        """Return jobs with their inputs, from a query of ``JOB_COLUMNS``."""
        return self.with_inputs(self.raw_rows(query, **values))

    def with_inputs(self, rows: Iterable[Any]) -> tuple[Job, ...]:
        """Return jobs from rows of ``JOB_COLUMNS``. Jobs without inputs cost nothing more."""
        rows = list(rows)
        ids = [row[0] for row in rows if row[INPUT_COUNT]]
        inputs: dict[int, list[str]] = defaultdict(list)
        if ids:
            for job, file in self.raw_rows(_INPUTS, ids=ids):
                inputs[job].append(file)
        return tuple(job_rows.job(row, tuple(inputs[row[0]]) if row[INPUT_COUNT] else ()) for row in rows)

    def jobs_where(self, *conditions: ColumnElement[bool], **values: Any) -> tuple[Job, ...]:
        """Return jobs by number."""
        return self.with_inputs(self.raw_rows(_jobs_where(conditions), **values))

    def pages_of_jobs(self, *conditions: ColumnElement[bool]) -> Iterator[tuple[Job, ...]]:
        """Yield jobs by number, page by page."""
        paged = _jobs_where(conditions).execution_options(yield_per=PAGE)
        for rows in self.connection.execute(paged).partitions():
            yield self.with_inputs(rows)

    def usages(self, of_jobs: Iterable[Job]) -> tuple[JobUsage, ...]:
        """Return the resources that jobs' last attempts used."""
        ids = [job.id for job in of_jobs]
        if not ids:
            return ()
        return tuple(
            JobUsage(job=job, **{name: value or 0 for name, value in zip(USAGE, values, strict=True)})
            for job, *values in self.raw_rows(_USAGES, ids=ids)
        )

    def tasks(self, ids: Iterable[int]) -> tuple[Task, ...]:
        """Return tasks by number."""
        numbers = sorted(set(ids))
        return self.tasks_from(_TASKS, ids=numbers) if numbers else ()

    def tasks_from(self, query: Select[Any], **values: Any) -> tuple[Task, ...]:
        """Return tasks from a query of ``TASK_COLUMNS``."""
        rows = self.raw_rows(query, **values)
        specs = self._specs.of(self.connection, [row[0] for row in rows])
        return tuple(task_rows.task(row, specs[row[0]]) for row in rows if row[0] in specs)

    def tasks_of(self, of_jobs: Iterable[Job]) -> tuple[Task, ...]:
        """Return the tasks of jobs."""
        return self.tasks(job.task for job in of_jobs)

    def files(self, names: Iterable[str]) -> tuple[File, ...]:
        """Return files by name."""
        identifiers = sorted(set(names))
        return self._files(_FILES, names=identifiers) if identifiers else ()

    def inputs_of(self, of_jobs: Iterable[Job]) -> tuple[File, ...]:
        """Return the files that jobs read."""
        return self.files(name for job in of_jobs for name in job.inputs)

    def outputs_of(self, ids: Iterable[int]) -> tuple[File, ...]:
        """Return the files that jobs made."""
        numbers = sorted(set(ids))
        return self._files(_OUTPUTS, ids=numbers) if numbers else ()

    def files_of_tasks(self, ids: Iterable[int]) -> tuple[File, ...]:
        """Return the files that the jobs of tasks made."""
        numbers = sorted(set(ids))
        return self._files(_TASK_FILES, ids=numbers) if numbers else ()

    def outputs_of_task(self, task: int, after: str, limit: int) -> tuple[File, ...]:
        """Return files that the jobs of a task made, by name, behind a given name."""
        return self._files(_OUTPUTS_OF_TASK, task=task, after=after, limit=limit)

    def _files(self, query: Select[Any], **values: Any) -> tuple[File, ...]:
        return tuple(map(file_rows.file, self.raw_rows(query, **values)))

    def replicas_of(self, of_files: Iterable[File]) -> tuple[Replica, ...]:
        """Return the replicas of files."""
        names = sorted({file.name for file in of_files})
        if not names:
            return ()
        return tuple(map(file_rows.replica, self.raw_rows(_REPLICAS, names=names)))

    def transfers(self, *conditions: ColumnElement[bool], **values: Any) -> tuple[Transfer, ...]:
        """Return transfers by number."""
        return tuple(map(transfer_rows.transfer, self.raw_rows(_transfers_where(conditions), **values)))

    def transfers_in(self, *states: TransferState) -> tuple[Transfer, ...]:
        """Return all transfers in these states."""
        return self.transfers(_transfer_in(states))

    def live_transfers_of(self, of_files: Iterable[File]) -> tuple[Transfer, ...]:
        """Return live transfers of files."""
        names = sorted({file.name for file in of_files})
        if not names:
            return ()
        return self.transfers(_OF_FILES, _transfer_in(LIVE_TRANSFERS), names=names)

    def pilots(self, *conditions: ColumnElement[bool], **values: Any) -> tuple[Pilot, ...]:
        """Return pilots by number."""
        # Sort here: SQLite is slower for thousands of whole rows.
        rows = sorted(self.raw_rows(_pilots_where(conditions), **values), key=itemgetter(0))
        return tuple(map(pilot_rows.pilot, rows))

    def iterated(self, step: str) -> float | None:
        """Return when the last iteration of a step began."""
        return iterations.last(self.connection, step)

    def advertisements(self) -> tuple[Advertisement, ...]:
        """Return the advertisements of all sites."""
        return advertisements.read(self.connection)

    def bounding_advertisements(self, sites: Sequence[Site]) -> tuple[Advertisement, ...]:
        """Return the advertisements that limit sites.

        These are all that sites sent, and one for each site with limits or requirements.
        """
        limited = [site.name for site in sites if site.is_limited or site.requirements]
        return advertisements.read(self.connection, limited, pushed=True)

    def job_counts(self) -> tuple[JobCount, ...]:
        """Return live jobs by queue, share and state."""
        return tuple(
            JobCount(queue=queue, share=share, state=JOB_STATES[state], jobs=int(count))
            for queue, share, state, count in self.raw_rows(_JOB_COUNTS)
        )

    def task_counts(self, ids: Iterable[int]) -> tuple[TaskCount, ...]:
        """Return jobs of tasks by state."""
        rows = self.raw_rows(_TASK_COUNTS, ids=[str(id_) for id_ in set(ids)])
        counts = [
            TaskCount(task=int(task), state=JOB_STATES[state], jobs=int(count)) for task, state, count in rows
        ]
        return tuple(sorted(counts, key=lambda count: (count.task, count.state)))

    def link_counts(self) -> tuple[LinkCount, ...]:
        """Return live transfers by link."""
        files: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for source, second, count in self.raw_rows(_LINK_COUNTS):
            # As ``counters.key`` joins them. Storages' names contain no spaces.
            destination, _, direction = second.partition(" ")
            files[source, destination][direction] = int(count)
        return tuple(
            LinkCount(
                source=source,
                destination=destination,
                files=sum(counted.values()),
                uploads=counted.get("upload", 0),
            )
            for (source, destination), counted in sorted(files.items())
        )

    def queue_reports(self) -> tuple[QueueReport, ...]:
        """Return the last reports on queues. Batch workers are running and submitted pilots (B30)."""
        workers = dict(tuple(row) for row in self.raw_rows(_WORKERS))
        running = dict(tuple(row) for row in self.raw_rows(_RUNNING_PILOTS))
        last_times = {queue: times for queue, *times in self.raw_rows(_QUEUE_REPORTS)}
        return tuple(
            QueueReport(
                queue=queue,
                last_pilot=last_times.get(queue, _NOTHING)[0],
                last_start=last_times.get(queue, _NOTHING)[1],
                mean_run=last_times.get(queue, _NOTHING)[2],
                batch_workers=int(workers.get(queue, 0)),
                running_pilots=running.get(queue, 0),
            )
            for queue in sorted({*workers, *last_times})
        )

    def task_queues(self, queues: Iterable[str] | None = None) -> tuple[TaskQueue, ...]:
        """Return activated jobs by queue and requirements, of all queues or some.

        Emptied task queues do not count (P1).
        """
        rows = (
            self.raw_rows(_TASK_QUEUES)
            if queues is None
            else self.raw_rows(_TASK_QUEUES_OF, queues=sorted(set(queues)))
        )
        return tuple(
            TaskQueue(queue=queue, requirements=requirements, jobs=int(count), priority=priority)
            for queue, requirements, count, priority in rows
        )
