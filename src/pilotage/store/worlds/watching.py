"""The world of the watchdog: only records that may be due by the time of their last change (rules T)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Any

from sqlalchemy import and_, bindparam, func, not_, or_, select

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, open_at
from pilotage.model.circuit_breakers.empty_pilots import is_missed
from pilotage.model.circuit_breakers.jobs import open_queues
from pilotage.model.documents.world import JobCount, QueueReport, World
from pilotage.model.records.counters import JOBS_BY_QUEUE
from pilotage.model.records.failures import Failure
from pilotage.model.records.states import (
    AT_A_PILOT,
    LIVE_TASKS,
    UNSTARTED_JOBS,
    JobState,
    PilotState,
)
from pilotage.model.records.work import Job, Pilot, Requirements
from pilotage.model.rules.rebrokerage import MOVED_FAST, excess, is_pinned
from pilotage.model.rules.timeouts import (
    JOB_RULES,
    RULES,
    draining_queues,
    heartbeat_of,
    resting_queues,
    shortest_heartbeat,
)
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.rows import among
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import JOB_COLUMNS, is_in, is_urgent, jobs
from pilotage.store.pilots.held_jobs import has_jobs, held_by
from pilotage.store.pilots.table import pilots
from pilotage.store.pilots.waiting_results import is_waiting
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import tasks
from pilotage.store.worlds.parts import Reading, part

_j = jobs.c
_J = JobState
_LIMIT: Any = bindparam("limit", type_=None)

_RULES = [rule for rule in JOB_RULES if rule.outcome != "none" and rule.state is not _J.PENDING]
"""Time-outs by the time in a state. Pending jobs have their own ``wake_at``."""

_DUE = {
    state: select(*JOB_COLUMNS)
    .where(is_in(state), _j.since <= bindparam("before"), not_(among(_j.queue, "resting")))
    .order_by(_j.since, _j.id)
    .limit(_LIMIT)
    for state in (rule.state for rule in _RULES)
}
_URGENTLY_DUE = {rule.state: _DUE[rule.state].where(is_urgent) for rule in _RULES if rule.high}
_TO_WAKE = (
    select(*JOB_COLUMNS)
    .where(is_state(jobs, _J.PENDING), _j.wake_at <= bindparam("time"))
    .order_by(_j.wake_at, _j.id)
    .limit(_LIMIT)
)
_FORGOTTEN = (
    select(*JOB_COLUMNS)
    .where(is_in(_J.PENDING), _j.wake_at.is_(None), _j.since <= bindparam("before"))
    .order_by(_j.since, _j.id)
    .limit(_LIMIT)
)
_HERE = (_j.queue == bindparam("queue"), _j.share == bindparam("share"))
_WAITING_LONGEST = {state: _DUE[state].where(*_HERE, not_(among(_j.task, "pinned"))) for state in MOVED_FAST}
_TASKS_HERE = {
    state: select(_j.task).distinct().where(is_in(state), _j.since <= bindparam("before"), *_HERE)
    for state in MOVED_FAST
}
_p = pilots.c
_last_call = func.coalesce(_p.heartbeat, _p.since)


_has_failed = and_(_p.state == str(PilotState.FAILED), _p.ended_there_since.is_not(None))
_LOSING = select(_p.id).where(
    has_jobs(_p.id),
    or_(_p.state == str(PilotState.FINISHED), _has_failed, _last_call <= bindparam("before")),
)
"""Pilots with jobs that surely ended, or were silent since ``before``."""

_HELD = select(*JOB_COLUMNS).where(held_by("pilots"))
# Exclude jobs that wait for their results, so that they do not fill the limit before lost jobs.
_LOST = (
    select(*JOB_COLUMNS)
    .where(is_state(jobs, *AT_A_PILOT), among(_j.pilot, "pilots"), ~is_waiting("time"))
    .order_by(_j.id)
    .limit(_LIMIT)
)
_LOST_TASKS = select(_j.task).distinct().where(is_state(jobs, *AT_A_PILOT), among(_j.pilot, "pilots"))
_LOST_OF_TASKS = _LOST.where(among(_j.task, "tasks"))
_HOLDERS = among(_p.id, "holders")
_SILENT = (is_state(pilots, PilotState.RUNNING), _last_call <= bindparam("before"))
_NOT_CALLED = {
    rule: (is_state(pilots, rule.state), _p.since <= bindparam("before"))
    for rule in RULES
    if rule.kind == "pilot" and rule.clock == "state"
}


_QUEUES = (
    select(counts.c.first)
    .where(
        counts.c.counter == JOBS_BY_QUEUE,
        counts.c.state.in_([str(state) for state in UNSTARTED_JOBS]),
    )
    .group_by(counts.c.first)
    .having(func.sum(counts.c.count) > 0)
)
_STRANDED = {
    state: select(*JOB_COLUMNS).where(is_in(state), among(_j.queue, "queues")).order_by(_j.id).limit(_LIMIT)
    for state in UNSTARTED_JOBS
}


_OF_TASK_QUEUE = (
    select(*JOB_COLUMNS)
    .where(
        is_state(jobs, _J.ACTIVATED),
        _j.queue == bindparam("queue"),
        _j.requirements == bindparam("requirements"),
    )
    .order_by(_j.priority.desc(), _j.created, _j.id)
    .limit(_LIMIT)
)

_LAPSED = (
    select(tasks.c.id)
    .where(tasks.c.lease_end <= bindparam("time"), has_state(tasks, *LIVE_TASKS))
    .order_by(tasks.c.lease_end, tasks.c.id)
    .limit(_LIMIT)
)


@part("jobs")
def due_jobs(reading: Reading) -> Mapping[str, Any]:
    """Read jobs that may be overdue, or that have an ended or silent pilot; some for each reason.

    Read the other jobs of their pilots too.
    """
    reader, world, limit = reading.reader, reading.world, reading.now.batch
    counts = reading["job_counts"]
    # Most states usually have no job: skip states that cannot have any.
    present = {count.state for count in counts}
    candidates = [
        *_late(reader, world, reading["queue_reports"], present, limit),
        *(_pending(reader, world, limit) if _J.PENDING in present else ()),
        *(_lost(reader, world, limit) if present.intersection(AT_A_PILOT) else ()),
        *_stranded(reader, world, reading["failures"], limit),
        *islice(_missing_something(reader, world, reading["lacking_nodes"], limit), limit),
        *_too_many(reader, world, counts, limit),
    ]
    # Read all jobs of these pilots: they decide whether a silent pilot is lost.
    holders = sorted({job.pilot for job in candidates if job.pilot is not None and job.state in AT_A_PILOT})
    companions = reader.jobs(_HELD, pilots=holders) if holders else ()
    by_id = {job.id: job for job in (*candidates, *companions)}
    return {"jobs": tuple(by_id[id_] for id_ in sorted(by_id))}


@part("waiting_results")
def waiting_results(reading: Reading) -> Mapping[str, Any]:
    """Read which of these jobs have results in a spool."""
    jobs = [job.id for job in reading["jobs"] if job.state in AT_A_PILOT]
    return {"waiting_results": reading.reader.waiting_results(jobs) if jobs else ()}


@part("pilots")
def late_pilots(reading: Reading) -> Mapping[str, Any]:
    """Read pilots that waited or were silent for too long, and the pilots of these jobs."""
    return {"pilots": _pilots(reading.reader, reading.world, reading["jobs"])}


@part("lapsed")
def lapsed(reading: Reading) -> Mapping[str, Any]:
    """Read tasks with an expired lease."""
    rows = reading.reader.raw_rows(_LAPSED, time=reading.world.time, limit=reading.now.batch)
    return {"lapsed": tuple(task for (task,) in rows)}


def _late(
    reader: RecordReader,
    world: World,
    reports: Sequence[QueueReport],
    present: Set[JobState],
    limit: int,
) -> list[Job]:
    """Return jobs that are in their state for too long, at queues that are not paused."""
    timeouts = world.federation.timeouts
    resting = resting_queues(world.federation)
    starting = {
        report.queue
        for report in reports
        if report.last_start is not None and world.time - report.last_start <= timeouts.last_start
    }
    late_jobs: list[Job] = []
    for rule in _RULES:
        if rule.state not in present:
            continue
        values = {
            "before": world.time - rule.seconds(world.federation),
            "resting": sorted(resting),
            "limit": limit,
        }
        late_jobs += reader.jobs(_DUE[rule.state], **values)
        if rule.high:
            spared = resting | starting if rule.idle_only else resting
            values |= {"before": world.time - rule.seconds_high(world.federation), "resting": sorted(spared)}
            late_jobs += reader.jobs(_URGENTLY_DUE[rule.state], **values)
    return late_jobs


def _pending(reader: RecordReader, world: World, limit: int) -> list[Job]:
    woken = reader.jobs(_TO_WAKE, time=world.time, limit=limit)
    before = world.time - world.federation.timeouts.pending
    return [*woken, *reader.jobs(_FORGOTTEN, before=before, limit=limit)]


def _lost(reader: RecordReader, world: World, limit: int) -> tuple[Job, ...]:
    """Return jobs at pilots that ended, or that were silent longer than the jobs' workflows allow.

    Search each heartbeat time-out separately. Else pilots that may still be silent could fill the limit.
    """
    timeouts = world.federation.timeouts
    losing = _silent_holders(reader, world.time - shortest_heartbeat(timeouts))
    if not losing or not timeouts.heartbeat_by_workflow:
        return reader.jobs(_LOST, pilots=losing, time=world.time, limit=limit) if losing else ()
    by_silence: dict[float, list[int]] = defaultdict(list)
    ids = [task for (task,) in reader.raw_rows(_LOST_TASKS, pilots=losing)]
    for task in reader.tasks(ids):
        by_silence[heartbeat_of(timeouts, task.spec.workflow)].append(task.id)
    lost: list[Job] = []
    for silence, task_ids in sorted(by_silence.items()):
        silent = _silent_holders(reader, world.time - silence)
        values = {"pilots": silent, "tasks": task_ids, "time": world.time, "limit": limit}
        lost += reader.jobs(_LOST_OF_TASKS, **values) if silent else ()
    return tuple(lost)


def _silent_holders(reader: RecordReader, before: float) -> list[int]:
    """Return pilots with jobs that ended or were silent since ``before``."""
    return [pilot for (pilot,) in reader.raw_rows(_LOSING, before=before)]


def _pilots(reader: RecordReader, world: World, jobs: Sequence[Job]) -> tuple[Pilot, ...]:
    """Return pilots that waited too long, silent pilots without jobs, and all pilots of due jobs."""
    holders = sorted({job.pilot for job in jobs if job.pilot is not None})
    unheard_since = world.time - world.federation.timeouts.heartbeat
    holding = {*_silent_holders(reader, unheard_since)}
    late_pilots = [
        *(pilot for pilot in reader.pilots(*_SILENT, before=unheard_since) if pilot.id not in holding),
        *(reader.pilots(_HOLDERS, holders=holders) if holders else ()),
    ]
    for rule, conditions in _NOT_CALLED.items():
        late_pilots += reader.pilots(*conditions, before=world.time - rule.seconds(world.federation))
    by_id = {pilot.id: pilot for pilot in late_pilots}
    return tuple(by_id[id_] for id_ in sorted(by_id))


def _stranded(reader: RecordReader, world: World, failures: Sequence[Failure], limit: int) -> list[Job]:
    """Return jobs that wait at queues that left the federation, are draining, or have open breakers (F2)."""
    queue_names = {queue.name for queue in world.federation.queues}
    closed_queues = {breaker.place[0] for breaker in open_queues(failures, world.federation, world.time)}
    closed_queues |= draining_queues(world.federation)
    gone = sorted({queue for (queue,) in reader.raw_rows(_QUEUES)} - (queue_names - closed_queues))
    if not gone:
        return []
    return [job for query in _STRANDED.values() for job in reader.jobs(query, queues=gone, limit=limit)]


def _missing_something(
    reader: RecordReader, world: World, lacking: Sequence[CircuitBreaker], limit: int
) -> Iterator[Job]:
    """Yield jobs that wait for pilots at queues where every node lacks one of their needs (B14)."""
    for breaker in open_at(lacking, world.time):
        queue, need = breaker.place
        for line in reader.task_queues([queue]):
            if is_missed(need, Requirements.from_text(line.requirements)):
                yield from reader.jobs(
                    _OF_TASK_QUEUE, queue=queue, requirements=line.requirements, limit=limit
                )


def _too_many(reader: RecordReader, world: World, counts: Sequence[JobCount], limit: int) -> list[Job]:
    """Return the longest waiting jobs at queues where fast rebrokerage can move some.

    Skip jobs that stay because their task names the queue.
    """
    before = world.time - world.federation.timeouts.fast_rebro_wait
    longest_waits: list[Job] = []
    for (queue, share), count in excess(world.federation, counts).items():
        here = {"queue": queue, "share": share, "before": before}
        for state, query in _WAITING_LONGEST.items():
            ids = [task for (task,) in reader.raw_rows(_TASKS_HERE[state], **here)]
            pinned = [task.id for task in reader.tasks(ids) if is_pinned(task.spec, queue, world.federation)]
            longest_waits += reader.jobs(query, **here, pinned=pinned, resting=[], limit=min(count, limit))
    return longest_waits
