"""Queues and shares for people: the declaration with counts, and why nothing starts at a queue."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import and_, bindparam, func, select

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, lifted_at
from pilotage.model.circuit_breakers.jobs import job_breakers
from pilotage.model.circuit_breakers.pilots import server_breaker
from pilotage.model.circuit_breakers.storages import storage_breakers
from pilotage.model.records.constants import DirectorConstants
from pilotage.model.records.counters import JOBS_BY_QUEUE, PILOTS_BY_QUEUE
from pilotage.model.records.federation import Federation, Queue, QueueStatus
from pilotage.model.records.states import AT_A_PILOT, JobState, PilotState, TransferState
from pilotage.model.records.storage_spaces import free_spaces
from pilotage.model.records.unified_queues import counted_together, pilot_limits
from pilotage.model.records.work import Pilot
from pilotage.model.rules.queue_condition import QueueCondition
from pilotage.model.rules.restricted import by_place, of_queue
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.rows import among
from pilotage.store.jobs import failures
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import jobs
from pilotage.store.pilots.table import pilots
from pilotage.store.queues.federations import InForce
from pilotage.store.queues.last_seen import queue_reports
from pilotage.store.reader import RecordReader
from pilotage.store.worlds.broker_facts import LATELY


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue, with the number of its jobs and pilots in each state."""

    name: str
    site: str
    status: QueueStatus
    cores: int
    max_memory: float
    max_walltime: float
    jobs: Mapping[JobState, int]
    pilots: Mapping[PilotState, int]
    restriction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareView:
    """A share, with the number of its jobs and transfers in each state.

    Transfers have their own criterion for shares (D1). If that gives other names than the global shares have,
    transfers have separate rows with a ``target`` of 0. Where targets follow use, ``used`` is its part of
    its siblings' use, and ``follows`` is the target in force.
    """

    name: str
    vo: str = ""
    target: float = 0
    used: float | None = None
    follows: float | None = None
    jobs: Mapping[JobState, int] = field(default_factory=dict)
    transfers: Mapping[TransferState, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUse:
    """A share's running jobs as a fraction of all, next to its target as a fraction of all targets."""

    share: ShareView
    running: int
    used: float
    target: float

    @property
    def name(self) -> str:
        """Return the share's name."""
        return self.share.name


def share_uses(every: Sequence[ShareView]) -> list[ShareUse]:
    """Return shares that have a target or jobs, in order of their running jobs."""
    running = {share.name: sum(share.jobs.get(state, 0) for state in AT_A_PILOT) for share in every}
    whole = sum(running.values()) or 1
    in_force = {share.name: share.target if share.follows is None else share.follows for share in every}
    targets = sum(in_force.values()) or 1.0
    uses = [
        ShareUse(
            share=share,
            running=running[share.name],
            used=running[share.name] / whole,
            target=in_force[share.name] / targets,
        )
        for share in every
        if share.target or share.jobs
    ]
    return sorted(uses, key=lambda use: (-use.running, -use.target, use.name))


MOST_ERRORS = 3
"""Number of newest failed pilots to show the errors of."""

_c, _p, _q, _j = counts.c, pilots.c, queue_reports.c, jobs.c

_COUNTED = (
    select(_c.counter, _c.first, _c.second, _c.state, func.sum(_c.count))
    .where(_c.counter.in_([JOBS_BY_QUEUE, PILOTS_BY_QUEUE]), among(_c.first, "queues"))
    .group_by(_c.counter, _c.first, _c.second, _c.state)
    .having(func.sum(_c.count) > 0)
)
_SEEN = select(_q.queue, _q.last_pilot, _q.last_start).where(among(_q.queue, "queues"))
_WAITING = (
    select(_p.queue, func.min(_p.created))
    .where(is_state(pilots, PilotState.SUBMITTED), among(_p.queue, "queues"))
    .group_by(_p.queue)
)
_ERRORS = (
    select(_p.state, _p.error, _p.heartbeat)
    .where(
        _p.queue == bindparam("queue"),
        has_state(pilots, PilotState.FAILED, PilotState.RUNNING, PilotState.FINISHED),
    )
    .order_by(_p.id.desc())
    .limit(MOST_ERRORS)
)
_LATELY = and_(_p.queue == bindparam("queue"), _p.since > bindparam("after"))
_WAITING_JOBS = (
    select(_j.queue, func.count())
    .where(_j.task == bindparam("task"), is_state(jobs, JobState.ACTIVATED))
    .group_by(_j.queue)
    .order_by(func.count().desc(), _j.queue)
)


def of_queues(
    reader: RecordReader, in_force: InForce, time: float, names: Iterable[str]
) -> tuple[QueueCondition, ...]:
    """Return the condition of declared queues, by name."""
    federation, changed, chosen = in_force.federation, in_force.changed, set(names)
    declared = [queue for queue in federation.queues if queue.name in chosen]
    declared_names = sorted(queue.name for queue in declared)
    jobs_there, pilots_there = _counted(reader, declared_names)
    limits, last_times = pilot_limits(federation), _last_times(reader, federation, declared_names)
    waiting = dict(tuple(row) for row in reader.raw_rows(_WAITING, queues=declared_names))
    breakers = (
        *job_breakers(failures.of_places(reader, time), federation),
        *storage_breakers(reader.failed_deliveries(), federation.staging, time),
    )
    spaces = free_spaces(federation, reader.storage_spaces(), time)
    storages = {storage.name: storage for storage in federation.storages}
    restrictions = by_place(in_force.restrictions)
    return tuple(
        QueueCondition(
            time=time,
            queue=queue,
            storage=storages[queue.storage],
            jobs=dict(sum(map(Counter, jobs_there[queue.name].values()), Counter[JobState]())),
            jobs_by_share=dict(jobs_there[queue.name]),
            pilots=dict(pilots_there[queue.name]),
            pilot_limits=limits.get(queue.name, ()),
            last_pilot=last_times[queue.name][0],
            last_start=last_times[queue.name][1],
            errors=(errors := _errors(reader, queue.name, pilots_there[queue.name])),
            tried_at=_tried_at(reader, queue.name, federation.director, time, changed.get(queue.name))
            if errors
            else None,
            changed=changed.get(queue.name),
            waiting_since=waiting.get(queue.name),
            breakers=tuple(breaker for breaker in breakers if _is_of(breaker, queue)),
            space=spaces[queue.storage],
            restriction=next((limit.text for limit in of_queue(restrictions, queue)), ""),
        )
        for queue in sorted(declared, key=lambda queue: queue.name)
    )


def _last_times(
    reader: RecordReader, federation: Federation, queues: Sequence[str]
) -> dict[str, tuple[float | None, float | None]]:
    """Return the last call of a pilot and the last start of a job at queues.

    Queues that count together (B2) share both.
    """
    together = counted_together(federation)
    there = sorted({name for queue in queues for name in together[queue]})
    rows = {queue: times for queue, *times in reader.raw_rows(_SEEN, queues=there)}

    def latest(queue: str, at: int) -> float | None:
        times = [rows[name][at] for name in together[queue] if name in rows]
        return max((time for time in times if time is not None), default=None)

    return {queue: (latest(queue, 0), latest(queue, 1)) for queue in queues}


def _counted(
    reader: RecordReader, queues: Sequence[str]
) -> tuple[Mapping[str, dict[str, dict[JobState, int]]], Mapping[str, dict[PilotState, int]]]:
    """Return the jobs of queues by share and state, and their pilots by state."""
    jobs_there: dict[str, dict[str, dict[JobState, int]]] = defaultdict(lambda: defaultdict(dict))
    pilots_there: dict[str, dict[PilotState, int]] = defaultdict(lambda: defaultdict(int))
    for counter, name, second, state, count in reader.raw_rows(_COUNTED, queues=queues):
        if counter == JOBS_BY_QUEUE:
            jobs_there[name][second][JobState(state)] = int(count)
        else:
            pilots_there[name][PilotState(state)] += int(count)
    return jobs_there, pilots_there


def _is_of(breaker: CircuitBreaker, queue: Queue) -> bool:
    return queue.storage in breaker.place if breaker.kind == "storage" else breaker.place[0] == queue.name


def where_jobs_wait(reader: RecordReader, task: int) -> list[str]:
    """Return queues where jobs of a task wait for a pilot, most jobs first."""
    return [queue for queue, _ in reader.raw_rows(_WAITING_JOBS, task=task)]


def _errors(reader: RecordReader, queue: str, pilots_there: Mapping[PilotState, int]) -> tuple[str, ...]:
    """Return the errors of pilots that failed since one last called home, newest first."""
    # Read nothing for queues without failed pilots: that is most of them.
    if not pilots_there.get(PilotState.FAILED):
        return ()
    errors = []
    for state, error, heartbeat in reader.raw_rows(_ERRORS, queue=queue):
        if heartbeat is not None:
            break
        if state == str(PilotState.FAILED):
            errors.append(error or "no reason was given")
    return tuple(errors)


def _tried_at(
    reader: RecordReader, queue: str, director: DirectorConstants, time: float, changed: float | None
) -> float | None:
    """Return when a pilot next probes a server of the queue (P6); None if a server's breaker is closed."""
    by_server: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in reader.pilots(_LATELY, queue=queue, after=time - LATELY):
        by_server[pilot.entrance].append(pilot)
    lifted = reader.lifted_breakers()
    breakers = [
        server_breaker((queue, server), pilots, director, changed, lifted_at(lifted, "server", queue, server))
        for server, pilots in by_server.items()
    ]
    return min((breaker.until for breaker in breakers if breaker), default=None) if all(breakers) else None
