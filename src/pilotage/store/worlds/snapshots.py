"""A world for each step: what it reads, as of one moment, at a cost that does not grow with what is queued.

Every snapshot is given the world's time (s since 1970 UTC) and its seed.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import replace
from itertools import chain
from math import inf
from typing import Any

from sqlalchemy import bindparam, func, or_, select

from pilotage.model.documents.moves import FULL
from pilotage.model.documents.world import Heartbeat, JobCount, TaskCount, World
from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.failures import Failure
from pilotage.model.records.states import (
    JOBS_AT_WORK,
    LIVE_JOBS,
    LIVE_PILOTS,
    JobState,
    PilotState,
    PublicationState,
    TaskState,
)
from pilotage.model.records.work import Job, Task
from pilotage.model.rules.idle_slots import idle_slots
from pilotage.model.values.step_names import PROVISION
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.sets import among
from pilotage.store.tables import borrowing_queues, failures, publications
from pilotage.store.tables.counters import counts
from pilotage.store.tables.federations import Federations
from pilotage.store.tables.jobs import JOB_COLUMNS, is_live, jobs
from pilotage.store.tables.link_rates import LinkRates
from pilotage.store.tables.pilots import pilots
from pilotage.store.tables.reader import RecordReader
from pilotage.store.tables.tasks import TASK_COLUMNS, SpecCache, tasks

from . import (
    borrowings,
    broker_facts,
    copies,
    reports,
    staging,
    throttled_jobs,
    unsplit_tasks,
    waiting,
    watching,
    whole,
    withdrawals,
)
from .known_inputs import KnownInputs
from .live_pilots import LivePilots
from .waiting import Apart, Parts

ENDED_LATELY = 3600.0
"""How long the director hears of a pilot that has ended, in s."""

EXAMPLES = 20
"""How many failed jobs of a task are shown for their errors."""

_j, _t, _c = jobs.c, tasks.c, counts.c
_LIMIT: Any = bindparam("limit", type_=None)


_WORKING = (
    select(_c.first)
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_(JOBS_AT_WORK))
    .where(_c.first == _t.id.cast(_c.first.type))
    .group_by(_c.first)
    .having(func.sum(_c.count) > 0)
)
_TO_COMPLETE = (
    select(*TASK_COLUMNS)
    .where(is_state(tasks, TaskState.SCOUTING, TaskState.RUNNING, TaskState.MERGING), ~_WORKING.exists())
    .where(~among(_t.id, "apart"))
    .order_by(_t.id)
    .limit(_LIMIT)
)
_IN_STATE = (
    select(*JOB_COLUMNS)
    .where(_j.task == bindparam("task"), _j.state == bindparam("state"))
    .order_by(_j.id)
    .limit(_LIMIT)
)
_ENDED = (
    is_state(pilots, *(state for state in PilotState if state not in LIVE_PILOTS)),
    pilots.c.since > bindparam("after"),
)
_ENDED_OTHERWISE = (*_ENDED, or_(pilots.c.state != str(PilotState.FINISHED), pilots.c.reference == ""))
_OF_TASKS = among(_j.task, "ids")
_MERGING = is_state(jobs, JobState.MERGING)
_FAILED = (
    select(*JOB_COLUMNS)
    .where(_j.task == bindparam("task"), is_state(jobs, JobState.FAILED))
    .order_by(_j.id)
    .limit(EXAMPLES)
)


class Snapshots:
    """Reads worlds. Each raises :class:`NoFederation` while there is none."""

    def __init__(
        self, database: Database, federations: Federations, specs: SpecCache, live: LivePilots
    ) -> None:
        self._database = database
        self._federations = federations
        self._specs = specs
        self._live = live
        self._link_rates = LinkRates()
        self._known_inputs = KnownInputs()

    def _world(self, time: float, seed: int, read: Callable[[RecordReader, World], dict[str, Any]]) -> World:
        def work(connection: Any) -> World:
            declared = self._federations.in_force(connection)
            federation = self._link_rates.applied(connection, declared.federation, time)
            empty = World(time=time, seed=seed, federation=federation, queues_changed=declared.changed)
            parts = read(RecordReader(connection, self._specs), empty)
            return World(
                time=time, seed=seed, federation=federation, queues_changed=declared.changed, **parts
            )

        return self._database.read(work)

    def for_split(
        self, time: float, seed: int, limit: int, jobs: float = inf, turn: int = 1, apart: Apart = ()
    ) -> World:
        """Tasks that are not split, or not all of them, and their jobs.

        The first ``limit`` by how long they waited, and no more than take so many ``jobs``, ``turn`` of each.
        """

        def read(reader: RecordReader, world: World) -> dict[str, Any]:
            found = unsplit_tasks.read(reader, limit, jobs, turn, apart)
            made = reader.task_counts(task.id for task in found) if found else ()
            return throttled_jobs.read(reader, world, found, limit) | {"task_counts": made}

        return self._world(time, seed, read)

    def for_broker(
        self,
        time: float,
        seed: int,
        limit: int,
        state: JobState = JobState.DEFINED,
        parts: Parts | None = None,
        if_any: bool = False,
        apart: Apart = (),
        crowded: Set[int] = frozenset(),
    ) -> World:
        """Jobs to be brokered, by priority, then age; their inputs; what is where already.

        Every task that has any is there with its oldest jobs, about ``limit`` in all, so that one which
        has to wait does not keep the others out (of more than ``limit`` tasks the first by priority); or as
        many of each as ``parts`` says. ``state`` PENDING
        gives those that wait for a queue (B37). Of ``crowded`` tasks pending jobs are there, too. With
        ``if_any`` nothing else is read where none waits.
        """

        def read(reader: RecordReader, world: World) -> dict[str, Any]:
            each = parts or waiting.equally(limit)
            found = waiting.oldest(reader, state, limit, each, apart, crowded)
            most_ahead = limit if state is JobState.DEFINED else 0
            return broker_facts.read(reader, world, found, most_ahead, apart) if found or not if_any else {}

        return self._world(time, seed, read)

    def crowded_tasks(self) -> set[int]:
        """Find tasks with jobs that are pending for want of room (B36, B37), by the oldest pending job."""
        return self._database.read(
            lambda connection: waiting.crowded_tasks(RecordReader(connection, self._specs), FULL)
        )

    def for_rebinding(self, time: float, seed: int, limit: int, apart: Apart = ()) -> World:
        """Activated jobs and what they would be brokered by, where a pilot is idle elsewhere; else counts."""

        def read(reader: RecordReader, world: World) -> dict[str, Any]:
            counts, reports = reader.job_counts(), reader.queue_reports()
            idle = idle_slots(world.federation, reports, counts)
            elsewhere = (row for row in counts if row.state is JobState.ACTIVATED and row.queue not in idle)
            if not idle or not any(elsewhere):
                return {"job_counts": counts, "queue_reports": reports}
            found = waiting.oldest(reader, JobState.ACTIVATED, limit, waiting.equally(limit), apart)
            return broker_facts.read(reader, world, found)

        return self._world(time, seed, read)

    def newest_choices(self) -> dict[str, int]:
        """The newest choice by queue whose pilots might take jobs of others by it."""
        return self._database.read(
            lambda connection: borrowing_queues.newest(RecordReader(connection, self._specs))
        )

    def for_borrowing(self, time: float, seed: int, queue: str) -> World:
        """Jobs that the pilots of a queue might take from others, and what they are compared by."""
        return self._world(
            time, seed, lambda reader, world: borrowings.read(reader, world, queue, self._known_inputs)
        )

    def for_explain(self, time: float, seed: int, task: int, limit: int, job: int | None = None) -> World:
        """Read what brokering a task's jobs again would: as if they were DEFINED, and not in the counts.

        These are one ``job``, or up to ``limit``: those that wait first, ended ones where all have ended.
        """

        def read(reader: RecordReader, world: World) -> dict[str, Any]:
            if job is None:
                found = _as_they_stand(reader, task, limit)
            else:
                found = reader.jobs_where(_j.id == job, _j.task == task)
            parts = broker_facts.read(reader, world, found) | {"tasks": reader.tasks([task])}
            defined = (replace(one, state=JobState.DEFINED, queue="", pilot=None) for one in found)
            return parts | {"jobs": tuple(defined), "job_counts": _without(parts["job_counts"], found)}

        return self._world(time, seed, read)

    def for_staging(self, time: float, seed: int, limit: int) -> World:
        """Transfers under way, those that could start, those that ended, and the jobs these concern."""
        return self._world(time, seed, lambda reader, world: staging.read(reader, world, limit))

    def for_cleaning(self, time: float, seed: int, limit: int) -> World:
        """Copies that Pilotage made, those that came first, and how much all of them take."""
        return self._world(time, seed, lambda reader, world: copies.read(reader, world, limit))

    def for_director(self, time: float, seed: int) -> World:
        """Read what waits for pilots, and the pilots: live ones, and those of the last hour that count still.

        To the policy ``balanced`` all do (P12), to the other one those that ended otherwise than by their own
        word (P6), or before their submission was known: its answer may come yet.
        """

        def read(reader: RecordReader, world: World) -> dict[str, Any]:
            every = world.federation.director.policy == "balanced"
            lately = reader.pilots(*(_ENDED if every else _ENDED_OTHERWISE), after=time - ENDED_LATELY)
            return {
                "task_queues": reader.task_queues(),
                "pilots": _by_id(self._live.read(reader.connection), lately),
                "job_counts": reader.job_counts(),
                "advertisements": reader.bounding_advertisements(world.federation.sites),
                "iterated": reader.iterated(PROVISION),
                **borrowings.borrowable_lines(reader),
            }

        return self._world(time, seed, read)

    def for_sites(self, time: float, seed: int) -> World:
        """Read what sites tell of themselves and how full they are, and jobs by queue."""
        return self._world(time, seed, lambda reader, _: reader.of_sites())

    def for_survey(self, time: float, seed: int) -> World:
        """Read what storages told of their free space (B18)."""
        return self._world(time, seed, lambda reader, _: {"storage_spaces": reader.storage_spaces()})

    def for_reports(self, time: float, seed: int, told: Sequence[Heartbeat], quiet: bool = False) -> World:
        """Pilots that call, what they tell, the jobs they have, and those they name.

        Where ``quiet``, jobs are left out that a pilot has and merely holds, here and of what it tells: that
        is another question, which pays for many pilots together.
        """
        return self._world(time, seed, lambda reader, world: reports.read(reader, world, told, quiet))

    def for_completion(self, time: float, seed: int, limit: int, apart: Apart = ()) -> World:
        """Tasks of which no job is at work any more, with what their completion rests on.

        For tasks that are scouting these are all scouts, what they used and what they made.
        """

        def read(reader: RecordReader, _: World) -> dict[str, Any]:
            found = reader.tasks_from(_TO_COMPLETE, limit=limit, apart=apart)
            if not found:
                return {}
            scouting = [task.id for task in found if task.state == TaskState.SCOUTING]
            scouts = reader.jobs_where(_OF_TASKS, ids=scouting) if scouting else ()
            others = [task for task in found if task.state != TaskState.SCOUTING]
            ids = [task.id for task in others]
            counts = reader.task_counts(ids)
            failed = [count.task for count in counts if count.state == JobState.FAILED]
            to_merge = _to_merge(others, counts)
            unmerged = reader.jobs_where(_OF_TASKS, _MERGING, ids=ids)
            examples = chain.from_iterable(reader.jobs(_FAILED, task=task) for task in failed)
            return {
                "tasks": found,
                "task_counts": counts,
                "jobs": _by_id(scouts, unmerged, examples),
                "files": reader.files_of_tasks([*scouting, *to_merge]),
                "usages": reader.usages(scouts),
            }

        return self._world(time, seed, read)

    def failures(self, time: float) -> tuple[Failure, ...]:
        """Read the failed attempts that speak against queues and nodes (F2)."""
        return self._database.read(
            lambda connection: failures.of_places(RecordReader(connection, self._specs), time)
        )

    def for_stopping(self, time: float, seed: int) -> World:
        """Tasks of which nothing ended well and all that failed did so alike (F3), and their live jobs."""

        def read(reader: RecordReader, world: World) -> dict[str, Any]:
            parts = failures.alike(reader, time, world.federation.guard.fewest)
            ids = [task.id for task in parts["tasks"]]
            live = (
                reader.jobs_where(among(_j.task, "ids"), has_state(jobs, *LIVE_JOBS), ids=ids) if ids else ()
            )
            return parts | {"jobs": live, "task_counts": reader.task_counts(ids)}

        return self._world(time, seed, read)

    def for_watch(self, time: float, seed: int, limit: int) -> World:
        """Jobs whose time may be over, or whose pilot has ended or gone silent."""
        return self._world(time, seed, lambda reader, world: watching.read(reader, world, limit))

    def for_publishing(self, time: float, seed: int) -> World:
        """Outputs that catalogues are to be told of now, and those that they are being told of."""
        return self._world(time, seed, publications.read)

    def for_publishing_again(self, time: float, seed: int, task: int) -> World:
        """The publications of a task that failed."""

        def read(reader: RecordReader, _: World) -> dict[str, Any]:
            return {"publications": publications.of_task(reader, task, PublicationState.FAILED)}

        return self._world(time, seed, read)

    def for_cancel(self, time: float, seed: int, task: int) -> World:
        """A task, its live jobs, and the live transfers of what its jobs made."""

        def read(reader: RecordReader, _: World) -> dict[str, Any]:
            made = reader.files_of_tasks([task])
            return {
                "tasks": reader.tasks([task]),
                "jobs": reader.jobs_where(_j.task == task, is_live),
                "transfers": reader.live_transfers_of(made),
                "files": made,
            }

        return self._world(time, seed, read)

    def for_withdrawal(self, time: float, seed: int) -> World:
        """Live pilots, and all work that some of them may be used for."""
        return self._world(time, seed, lambda reader, _: withdrawals.read(reader, self._live))

    def for_giving_up(self, time: float, seed: int, files: Collection[str]) -> World:
        """Transfers of files that some jobs, which were cancelled, were waiting for."""
        return self._world(time, seed, lambda reader, world: staging.downloads_of(reader, world, files))

    def whole(self, time: float, seed: int) -> World:
        """All that is live, in order, and a request for work of every pilot that runs."""
        return self._world(time, seed, whole.read)


def _to_merge(found: Sequence[Task], counts: Iterable[TaskCount]) -> list[int]:
    """Running tasks of which all jobs wait to be merged, but for scouts whose work others did."""
    excused = {task.id: task.measured.failed if task.measured else 0 for task in found}
    unmerged = {
        count.task
        for count in counts
        if count.state != JobState.MERGING
        and (count.state != JobState.FAILED or count.jobs > excused[count.task])
    }
    return [
        task.id
        for task in found
        if task.spec.merge and task.state == TaskState.RUNNING and task.id not in unmerged
    ]


def _as_they_stand(reader: RecordReader, task: int, limit: int) -> tuple[Job, ...]:
    """Jobs of a task state by state, in the order in which a job meets them."""
    found: list[Job] = []
    for state in JobState:
        if len(found) < limit and (state in LIVE_JOBS or not found or found[0].state not in LIVE_JOBS):
            found += reader.jobs(_IN_STATE, task=task, state=str(state), limit=limit - len(found))
    return _by_id(found)


def _without(counts: Sequence[JobCount], taken: Iterable[Job]) -> tuple[JobCount, ...]:
    """The counts of all jobs but these."""
    less = Counter((job.queue, job.share, job.state) for job in taken)
    left = (replace(row, jobs=row.jobs - less[row.queue, row.share, row.state]) for row in counts)
    return tuple(row for row in left if row.jobs > 0)


def _by_id(*groups: Any) -> tuple[Any, ...]:
    return tuple(sorted(chain.from_iterable(groups), key=lambda record: record.id))
