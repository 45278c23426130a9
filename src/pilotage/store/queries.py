"""Answers for people: lists and single records, read at one moment, newest first unless stated otherwise.

Times in s since 1970 UTC, memory in MB, files in bytes. A missing record is None. Lists have at most
``limit`` items.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from pilotage.model.documents.decision import DatedChoice
from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.counters import JOBS_BY_QUEUE, PILOTS_BY_QUEUE, TRANSFERS_BY_SHARE
from pilotage.model.records.spec import LiveWork
from pilotage.model.records.states import (
    AT_A_PILOT,
    LIVE_PILOTS,
    JobState,
    Kind,
    PilotState,
    TransferState,
)
from pilotage.model.records.work import File, Pilot, Transfer
from pilotage.model.rules.queue_condition import QueueCondition
from pilotage.model.rules.restricted import by_place, of_queue
from pilotage.model.values.identity import Identity
from pilotage.store.commit.file_conflicts import conflicts
from pilotage.store.database.columns import is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import FileConflict, NoFederation, UnreadableTask
from pilotage.store.database.keyset import ListOrder, ListPage, total_of
from pilotage.store.database.record_columns import listed
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files import outputs
from pilotage.store.files.outputs import FIRST_OUTPUTS, OutputPage
from pilotage.store.files.table import OutputView
from pilotage.store.history.decisions import decisions, readable
from pilotage.store.history.history import EventView, decisions_of, events
from pilotage.store.jobs import borrowings, failures, job_counts
from pilotage.store.jobs import table as job_rows
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import JOB_VIEW, JobDetails, JobView, jobs
from pilotage.store.pilots import table as pilot_rows
from pilotage.store.pilots.table import PILOT_COLUMNS, EndedPilot, LivePilots, ended_pilots, pilots
from pilotage.store.queues import conditions, share_targets
from pilotage.store.queues.conditions import QueueView, ShareView
from pilotage.store.queues.federations import Federations
from pilotage.store.reader import RecordReader
from pilotage.store.records import RECORDS
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.table import TASK_VIEW, SpecCache, TaskDetails, is_live, live_work, tasks
from pilotage.store.transfers import table as transfer_rows
from pilotage.store.transfers.table import TRANSFER_COLUMNS, transfers

_t, _j, _c, _d, _p, _x = tasks.c, jobs.c, counts.c, decisions.c, pilots.c, transfers.c

_CHOICES = select(_d.time, _d.facts, _d.document).order_by(_d.id.desc())
_TASK_WHOLE = TASK_VIEW.add_columns(_t.measured, _t.datasets, _t.change_notes)
_BY_SHARE = (
    select(_c.second, _c.state, func.sum(_c.count))
    .where(_c.counter == JOBS_BY_QUEUE)
    .group_by(_c.second, _c.state)
    .having(func.sum(_c.count) > 0)
    .order_by(_c.second, _c.state)
)
_LIVE_PILOTS = select(*PILOT_COLUMNS).where(is_state(pilots, *LIVE_PILOTS)).order_by(pilots.c.id)
_PILOT = f"SELECT {listed(PILOT_COLUMNS)} FROM pilots WHERE id = %(pilot)s"

_SUBMITTED = select(_t.submission, _t.id, _t.name).where(among(_t.submission, "names"))


class Queries:
    """Reads for the API and the command line. Nothing here changes anything."""

    def __init__(
        self, database: Database, federations: Federations, specs: SpecCache, live: LivePilots
    ) -> None:
        self._database = database
        self._federations = federations
        self._specs = specs
        self._live = live

    def live_work(self, vo: str) -> dict[str, LiveWork]:
        """Return a VO's unfinished tasks with their jobs and input files, by owner."""
        return self._database.read(lambda connection: live_work(connection, vo))

    def refuse_conflicts(self, new_files: Sequence[File]) -> None:
        """Raise FileConflict if one of the files is known with another size or checksum."""
        for conflict in self.conflicts(new_files).values():
            raise conflict

    def conflicts(self, new_files: Sequence[File]) -> dict[int, FileConflict]:
        """Return the files that are known with another size or checksum, by index."""
        return self._database.read(lambda connection: dict(conflicts(connection, new_files)))

    def submitted(self, submission: str, limit: int) -> list[tuple[int, int, str]]:
        """Return index, id and name of the tasks that a named request created, at most ``limit``."""
        names = [f"{submission}:{index}" for index in range(limit)]
        rows = self._database.read(lambda connection: connection.execute(_SUBMITTED, {"names": names}).all())
        return sorted((int(row.submission.rpartition(":")[2]), row.id, row.name) for row in rows)

    def task(self, task: int) -> TaskDetails | None:
        """Return one task with its specification and measurements. Raises ``UnreadableTask``."""

        def read(connection: Connection) -> TaskDetails | None:
            row = connection.execute(_TASK_WHOLE.where(_t.id == task)).one_or_none()
            if row is None:
                return None
            counts = job_counts.of_tasks(connection, [str(task)])
            spec = self._specs.of(connection, [task]).get(task)
            if spec is None:
                raise UnreadableTask(task)
            return TaskDetails(
                **task_rows.view_fields(row, counts.get(str(row.id), {})),
                **task_rows.view_fields_alone(row),
                spec=spec,
            )

        return self._database.read(read)

    def jobs(self, task: int, state: JobState | None, limit: int, after: int = 0) -> list[JobView]:
        """Return a task's jobs with an id above ``after``, by id."""
        query = JOB_VIEW.where(_j.task == task, _j.id > after).order_by(_j.id).limit(limit)
        return self._jobs(task, query if state is None else query.where(is_state(jobs, state)))

    def conditions(self, time: float, names: Iterable[str] | None = None) -> tuple[QueueCondition, ...]:
        """Return the condition of queues, all or by name. Raises ``NoFederation``."""

        def read(connection: Connection) -> tuple[QueueCondition, ...]:
            declared = self._federations.in_force(connection)
            queue_names = (queue.name for queue in declared.federation.queues) if names is None else names
            return conditions.of_queues(RecordReader(connection, self._specs), declared, time, queue_names)

        return self._database.read(read)

    def where_jobs_wait(self, task: int) -> list[str]:
        """Return queues where jobs of a task wait for a pilot, most jobs first."""
        return self._database.read(
            lambda connection: conditions.where_jobs_wait(RecordReader(connection, self._specs), task)
        )

    def job(self, job: int) -> JobDetails | None:
        """Return one job with its history and failed attempts."""
        query = JOB_VIEW.add_columns(_j.history).where(_j.id == job)

        def read(connection: Connection) -> JobDetails | None:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            (happened,) = events(connection, [row.history])
            specs = self._specs.of(connection, [row.task])
            view = job_rows.view_fields(row, self._federations.sites(connection), specs)
            return JobDetails(**view, events=happened, failed_attempts=failures.of_job(connection, job))

        return self._database.read(read)

    def borrowings(self, job: int) -> tuple[list[Borrowing], list[str]]:
        """Return which queues' pilots took attempts of a job, and which could take it if it waits."""
        return self._database.read(
            lambda connection: (borrowings.of_job(connection, job), borrowings.takers(connection, job))
        )

    def events(self, kind: Kind, record: int) -> list[EventView]:
        """Return the history of any record, oldest first."""
        table = RECORDS[kind].c
        query = select(table.history).where(table.id == record)

        def read(connection: Connection) -> list[EventView]:
            histories = events(connection, connection.execute(query).scalars())
            return list(*histories)

        return self._database.read(read)

    def task_choices(self, task: int, limit: int = 100) -> list[DatedChoice]:
        """Return why a task's jobs went where they went, or nowhere."""
        query = _CHOICES.where(_d.task == task).limit(limit)
        return self._choices(query)

    def job_choices(self, job: int, limit: int = 100) -> list[DatedChoice]:
        """Return why a job went where it went, or nowhere, for each time it was brokered."""
        history = select(_j.history).where(_j.id == job)
        query = _CHOICES.where(among(_d.id, "ids")).limit(limit)

        def read(connection: Connection) -> list[DatedChoice]:
            ids = decisions_of(connection.execute(history).scalar() or "")
            return readable(connection, connection.execute(query, {"ids": ids}).all())

        return self._database.read(read)

    def outputs(
        self, task: int, parameters: bool = False, page: OutputPage = FIRST_OUTPUTS
    ) -> ListPage[OutputView]:
        """Return a page of a task's outputs, by name, and their storages; with parameters on request."""

        def read(connection: Connection) -> ListPage[OutputView]:
            reader = RecordReader(connection, self._specs)
            spec = self._specs.of(connection, [task]).get(task) if parameters else None
            return outputs.of_task(connection, reader, task, spec, self._urls(connection), page)

        return self._database.read(read)

    def payload_files(self, task: int, pilot: int) -> dict[str, str] | None:
        """Return the payload files of a task, by name, if the pilot holds one of its jobs."""
        holds = select(_j.id).where(_j.pilot == pilot, _j.task == task, is_state(jobs, *AT_A_PILOT)).limit(1)

        def read(connection: Connection) -> dict[str, str] | None:
            if connection.execute(holds).one_or_none() is None:
                return None
            return dict(self._specs.of(connection, [task])[task].payload_files)

        return self._database.read(read)

    def held_by(self, who: str, owner: Identity | None = None) -> list[int]:
        """Return the live tasks that ``who`` holds: of one person, or of all if None."""
        query = select(_t.id).where(is_live, _t.held == who).order_by(_t.id)
        if owner:
            query = query.where(_t.owner == owner.name, _t.vo == owner.vo)
        return self._database.read(lambda connection: [*connection.execute(query).scalars()])

    def pilot(self, pilot: int) -> Pilot | None:
        """Return one pilot."""
        rows = self._database.look(_PILOT, {"pilot": pilot})
        return pilot_rows.pilot(rows[0]) if rows else None

    def live_pilots(self, queue: str | None = None) -> list[Pilot]:
        """Return the live pilots of a queue or all."""
        if queue is None:
            return list(self._database.read(self._live.read))
        return self._pilots(_LIVE_PILOTS.where(pilots.c.queue == queue))

    def ended_pilots(self) -> list[EndedPilot]:
        """Return pilots that still run jobs although their batch job has ended."""
        return self._database.read(ended_pilots)

    def agent_versions(self) -> list[tuple[str, str, int]]:
        """Return how many pilots run at each queue with each version of the agent: queue, version, count."""
        query = (
            select(_p.queue, _p.agent_version, func.count())
            .where(is_state(pilots, PilotState.RUNNING))
            .group_by(_p.queue, _p.agent_version)
            .order_by(_p.queue, _p.agent_version)
        )
        return self._database.read(lambda connection: [tuple(row) for row in connection.execute(query)])

    def requirements(self, job: int) -> str:
        """Return a job's task queue as ``Requirements.text``; empty if there is no such job."""
        query = select(_j.requirements).where(_j.id == job)
        return self._database.read(lambda connection: connection.execute(query).scalar() or "")

    def jobs_of_pilot(self, pilot: int, limit: int) -> list[tuple[int, JobState]]:
        """Return the jobs that this pilot took last, by id, with their states. This searches all jobs."""
        query = select(_j.id, _j.state).where(_j.pilot == pilot).order_by(_j.id).limit(limit)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [(row.id, JobState(row.state)) for row in rows]

    def pilots(
        self,
        state: PilotState | None,
        queue: str | None,
        limit: int,
        empty: bool = False,
        after: str = "",
        queues: Collection[str] | None = None,
    ) -> ListPage[Pilot]:
        """Return pilots in a state, of a queue, of some queues, or all, newest first. Raises ``BadCursor``.

        Pilots in a state are ordered by when they entered it. ``empty`` selects pilots that ended without
        ever having a job, or that lack something that they were submitted for (P12).
        """
        in_state = ListOrder(name="since", id=_p.id, key=_p.since)
        order = ListOrder(name="newest", id=_p.id) if state is None or queue is not None else in_state
        conditions = [] if queue is None else [_p.queue == queue]
        conditions += [] if queues is None else [_p.queue.in_(queues)]
        if empty:
            called = _p.heartbeat.is_not(None) & (_p.matched == 0)
            conditions.append(called & ~is_state(pilots, *LIVE_PILOTS) | (_p.lacks != ""))
        counting = select(_p.state, func.count()).where(*conditions).group_by(_p.state)
        query = select(*PILOT_COLUMNS, *order.values()).where(
            *conditions, *order.after(order.position(after))
        )
        query = query if state is None else query.where(is_state(pilots, state))

        def read(connection: Connection) -> ListPage[Pilot]:
            if empty:
                counts = job_counts.of_query(connection, counting, PilotState)
            else:
                names = queues if queue is None else [queue] if queues is None or queue in queues else []
                counted = job_counts.counted(connection, "pilot", PILOTS_BY_QUEUE, names)
                counts = job_counts.summed(counted, PilotState)
            rows, following = order.read(connection, query, limit)
            views = [pilot_rows.pilot(tuple(row)[: len(PILOT_COLUMNS)]) for row in rows]
            return ListPage(views, total_of(counts, state), counts, following)

        return self._database.read(read)

    def transfers(self, state: TransferState | None, limit: int, after: str = "") -> ListPage[Transfer]:
        """Return transfers, newest first; with a state, by when they entered it. Raises ``BadCursor``."""
        order = (
            ListOrder(name="since", id=_x.id, key=_x.since) if state else ListOrder(name="newest", id=_x.id)
        )
        query = select(*TRANSFER_COLUMNS, *order.values()).where(*order.after(order.position(after)))
        query = query.where(is_state(transfers, state)) if state else query

        def read(connection: Connection) -> ListPage[Transfer]:
            counted = job_counts.counted(connection, "transfer", TRANSFERS_BY_SHARE)
            counts = job_counts.summed(counted, TransferState)
            rows, following = order.read(connection, query, limit)
            views = [transfer_rows.transfer(row) for row in rows]
            return ListPage(views, total_of(counts, state), counts, following)

        return self._database.read(read)

    def queues(self) -> list[QueueView]:
        """Return every queue of the federation by name, with its counts. Raises ``NoFederation``."""

        def read(connection: Connection) -> list[QueueView]:
            jobs_of_queue = job_counts.counted(connection, "job", JOBS_BY_QUEUE)
            pilot_counts = job_counts.counted(connection, "pilot", PILOTS_BY_QUEUE)
            declared = self._federations.in_force(connection)
            restrictions = by_place(declared.restrictions)
            return [
                QueueView(
                    name=queue.name,
                    site=queue.site,
                    status=queue.status,
                    cores=queue.cores,
                    max_memory=queue.max_memory,
                    max_walltime=queue.max_walltime,
                    jobs=jobs_of_queue.get(queue.name, {}),
                    pilots=pilot_counts.get(queue.name, {}),
                    restriction="; ".join(limit.text for limit in of_queue(restrictions, queue)),
                )
                for queue in sorted(declared.federation.queues, key=lambda q: q.name)
            ]

        return self._database.read(read)

    def shares(self) -> list[ShareView]:
        """Return global shares, and the other shares of transfers, by name. Raises ``NoFederation``."""

        def read(connection: Connection) -> list[ShareView]:
            in_force = self._federations.in_force(connection)
            declared = {share.name: share for share in in_force.unrestricted.shares}
            followed = share_targets.read(connection)[0] if in_force.share_targets else {}
            working = job_counts.by_name("job", connection.execute(_BY_SHARE))
            moving = job_counts.counted(connection, "transfer", TRANSFERS_BY_SHARE)
            return [
                ShareView(
                    name=name,
                    vo=declared[name].vo if name in declared else "",
                    target=declared[name].target if name in declared else 0,
                    used=followed[name].used if name in followed else None,
                    follows=followed[name].target if name in followed else None,
                    jobs=working.get(name, {}),
                    transfers=moving.get(name, {}),
                )
                for name in sorted({*declared, *working, *moving})
            ]

        return self._database.read(read)

    def _jobs(self, task: int, query: Any) -> list[JobView]:
        def read(connection: Connection) -> list[JobView]:
            sites, specs = self._federations.sites(connection), self._specs.of(connection, [task])
            return [JobView(**job_rows.view_fields(row, sites, specs)) for row in connection.execute(query)]

        return self._database.read(read)

    def _pilots(self, query: Any) -> list[Pilot]:
        return self._database.read(
            lambda connection: [pilot_rows.pilot(row) for row in raw_rows(connection, query)]
        )

    def _choices(self, query: Any) -> list[DatedChoice]:
        return self._database.read(lambda connection: readable(connection, connection.execute(query).all()))

    def _urls(self, connection: Connection) -> dict[str, str]:
        try:
            return {storage.name: storage.url for storage in self._federations.current(connection).storages}
        except NoFederation:
            return {}
