"""Facts that only brokerages read: long waits, queues without pilots, disk I/O, first skips (B3, B9, B12,
B26)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, bindparam, func, or_, select

from pilotage.model.circuit_breakers.breaker import lifted_at
from pilotage.model.circuit_breakers.pilots import server_breaker
from pilotage.model.documents.world import JobCount, QueueReport, World
from pilotage.model.records.states import PILOTS_AT_A_SITE, JobState, PilotState
from pilotage.model.records.work import Job, Pilot
from pilotage.model.rules.site_limits import next_cycle
from pilotage.model.values.durations import DAY
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among
from pilotage.store.history.history import EventView
from pilotage.store.jobs import waiting
from pilotage.store.jobs.table import is_in, is_measured, jobs
from pilotage.store.pilots.table import pilots
from pilotage.store.reader import RecordReader
from pilotage.store.worlds.parts import Reading, WorldPart, part

WAITED_LONG = 3600.0
"""Seconds after which an activated job, or a start, is worth a search: B9 asks for two hours."""

LATELY = 3600.0
"""Seconds for which pilots that failed before they called home count against a queue (P6, B26)."""

_j, _p = jobs.c, pilots.c

_WAITING = (
    select(_j.queue, func.min(_j.since))
    .where(is_in(JobState.ACTIVATED), _j.since <= bindparam("before"), among(_j.queue, "queues"))
    .group_by(_j.queue)
)
_UNDER_COMMON = _p.credential == ""
"""A pilot that failed under the credential of a person or group speaks for these alone."""
_FAILED = (
    select(_p.queue, func.max(_p.id))
    .where(
        is_state(pilots, PilotState.FAILED),
        _p.since > bindparam("after"),
        _p.heartbeat.is_(None),
        _UNDER_COMMON,
    )
    .group_by(_p.queue)
)
_WELL = (
    select(_p.queue, func.max(_p.id))
    .where(among(_p.queue, "queues"), _p.heartbeat.is_not(None), _p.since > bindparam("after"))
    .group_by(_p.queue)
)
_SPEAKS = or_(
    and_(
        among(_p.queue, "queues"),
        is_state(pilots, PilotState.FAILED),
        _p.since > bindparam("after"),
        _p.heartbeat.is_(None),
        _UNDER_COMMON,
    ),
    among(_p.id, "ids"),
)
_SUBMITTED = (
    select(_p.queue, func.min(_p.id), func.min(_p.created), func.count())
    .where(among(_p.queue, "queues"), _p.created > bindparam("after"), _p.reference != "")
    .group_by(_p.queue)
)
_CALLED_SINCE = (
    select(_p.id)
    .where(_p.id > bindparam("first"), _p.heartbeat.is_not(None))
    .order_by(_p.id)
    .limit(bindparam("most"))
)
_UNDER_WAY = select(_p.queue).where(among(_p.queue, "queues"), is_state(pilots, *PILOTS_AT_A_SITE)).distinct()
DISK_IO = select(_j.queue, func.avg(_j.disk_io)).where(is_measured).group_by(_j.queue)
_FOR_CYCLE = select(_j.id).where(is_in(JobState.PENDING), _j.wake_at == bindparam("cycle")).limit(1)
_HISTORIES = select(_j.id, _j.history).where(among(_j.id, "ids"))


def reports(
    reader: RecordReader, world: World, counts: Iterable[JobCount], stored: Iterable[QueueReport]
) -> tuple[QueueReport, ...]:
    """Return the reports on queues completed for brokerages.

    Add how long activated jobs wait there, the disk I/O of running jobs, and whether pilots can start.
    """
    by_queue = {report.queue: report for report in stored}
    waiting = _waiting(reader, world, by_queue.values())
    problems = _problems(reader, world)
    by_queue |= _untried(reader, world, by_queue)
    busy = {count.queue for count in counts if count.state is JobState.RUNNING}
    rates = {queue: round(rate, 3) for queue, rate in reader.raw_rows(DISK_IO)}
    return tuple(
        replace(
            by_queue.get(queue) or QueueReport(queue=queue),
            activated_since=waiting.get(queue),
            disk_io=rates.get(queue) if queue in busy else 0.0,
            pilots_possible=False if queue in problems else None,
            pilots_problem=problems.get(queue, ""),
        )
        for queue in sorted({*by_queue, *waiting, *problems})
    )


def _waiting(reader: RecordReader, world: World, reports: Iterable[QueueReport]) -> dict[str, float]:
    """Return when the oldest activated job was activated, at queues without a recent start (B9)."""
    before = world.time - WAITED_LONG
    starts = {report.queue for report in reports if (report.last_start or 0.0) > before}
    idle = sorted({queue.name for queue in world.federation.queues} - starts)
    rows = reader.raw_rows(_WAITING, before=before, queues=idle) if idle else ()
    return dict(tuple(row) for row in rows)


def _untried(
    reader: RecordReader, world: World, reports: Mapping[str, QueueReport]
) -> dict[str, QueueReport]:
    """Return the reports on queues without any call of a pilot, with the first submission there (B26).

    Submissions under an earlier declaration do not count.
    """
    untried: dict[str, QueueReport] = {}
    called = {name for name, report in reports.items() if report.last_pilot is not None}
    names = {queue.name for queue in world.federation.queues if queue.computing_element} - called
    rows = reader.raw_rows(_SUBMITTED, queues=sorted(names), after=world.time - DAY) if names else ()
    for queue, first, since, count in rows:
        changed = world.queues_changed.get(queue, since)
        callers = reader.raw_rows(_CALLED_SINCE, first=first, most=count)
        untried[queue] = replace(
            reports.get(queue) or QueueReport(queue=queue),
            first_submission=max(since, changed),
            calls_elsewhere=len(list(callers)) >= count,
        )
    return untried


def _problems(reader: RecordReader, world: World) -> dict[str, str]:
    """Return why pilots failed before they called, at queues where this opened the circuit breaker (P6).

    Leave out half-open breakers: a pilot probes such a queue only if jobs wait there.
    """
    time, director, changed = world.time, world.federation.director, world.queues_changed
    failed: dict[str, int] = dict(tuple(row) for row in reader.raw_rows(_FAILED, after=time - LATELY))
    if not failed:
        return {}
    queues = sorted(failed)
    well: dict[str, int] = dict(
        tuple(row) for row in reader.raw_rows(_WELL, queues=queues, after=time - LATELY)
    )
    tried = {queue for (queue,) in reader.raw_rows(_UNDER_WAY, queues=queues)}
    last = [queue for queue in queues if queue not in tried and failed[queue] > well.get(queue, 0)]
    failed_pilots: dict[str, list[Pilot]] = defaultdict(list)
    lifted = reader.lifted_breakers()
    for pilot in reader.pilots(_SPEAKS, queues=last, ids=sorted(well.values()), after=time - LATELY):
        if pilot.created > lifted_at(lifted, "server", pilot.queue, pilot.broker):
            failed_pilots[pilot.queue].append(pilot)
    return {
        queue: f"its last pilots failed before they called home: {_reason(failed_pilots[queue])}"
        for queue in last
        if (breaker := server_breaker((queue, ""), failed_pilots[queue], director, changed.get(queue)))
        and breaker.state(time) == "open"
    }


def _reason(pilots: Sequence[Pilot]) -> str:
    return pilots[-1].error.partition("\n")[0] or "no reason was given"


def _is_skip(event: EventView) -> bool:
    """Return whether a job became pending because the brokerage found no queue.

    From a state other than DEFINED, a job becomes pending because a storage failed (F4).
    """
    return event.target is JobState.PENDING and event.source is JobState.DEFINED


def with_first_skips(reader: RecordReader, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the jobs; merge jobs get the time when they were first skipped (B3)."""
    merging = [job.id for job in jobs if job.kind == "merge"]
    if not merging:
        return tuple(jobs)
    ids, histories = zip(*reader.raw_rows(_HISTORIES, ids=merging), strict=True)
    first = {
        id_: next((event.time for event in happened if _is_skip(event)), None)
        for id_, happened in zip(ids, reader.events(histories), strict=True)
    }
    return tuple(replace(job, skipped_since=first[job.id]) if first.get(job.id) else job for job in jobs)


def waiting_jobs(state: JobState) -> WorldPart:
    """Read the oldest jobs in a state of each task, by priority, then age.

    Read some of each task, so that no task blocks the others. If there are more tasks than a pass takes jobs,
    read jobs of the first tasks by priority.
    """

    def read(reading: Reading) -> Mapping[str, Any]:
        now = reading.now
        portions = now.portions or waiting.equally(now.batch)
        return {
            "jobs": waiting.oldest(
                reading.reader, state, now.batch, portions, now.apart, now.pending_for_room
            )
        }

    return WorldPart(("jobs",), read)


@part("jobs")
def first_skips(reading: Reading) -> Mapping[str, Any]:
    """Add to merge jobs the time when they were first skipped (B3)."""
    return {"jobs": with_first_skips(reading.reader, reading["jobs"])}


@part("ahead", "tasks", "task_counts")
def ahead(reading: Reading) -> Mapping[str, Any]:
    """Read jobs that wait for a cycle ahead of these, and if there are any, jobs by task (M7, M8)."""
    reader, jobs, now = reading.reader, reading["jobs"], reading.now
    if not jobs or not (_any_plugin(reading) or _any_waits(reading)):
        return {}
    portions = waiting.above(min(job.priority for job in jobs), now.batch)
    first = waiting.oldest(reader, JobState.PENDING, now.batch, portions, now.apart)
    asking = reader.tasks_of([*jobs, *first])
    counts = reader.task_counts(task.id for task in asking)
    return {"ahead": first, "tasks": asking, "task_counts": counts}


@part("advertisements")
def advertisements(reading: Reading) -> Mapping[str, Any]:
    """Read advertisements. If no plugin can need the others, read only advertisements that limit a site."""
    if _any_plugin(reading):
        return {"advertisements": reading.reader.advertisements()}
    return {"advertisements": reading.reader.bounding_advertisements(reading.world.federation.sites)}


def _any_plugin(reading: Reading) -> bool:
    """Return whether a brokerage other than the production brokerage may decide. Usually none does."""
    return bool(reading.world.federation.plugins) or any(task.spec.brokerage for task in reading.get("tasks"))


def _any_waits(reading: Reading) -> bool:
    """Return whether a job waits for the moment of the next match-making cycle."""
    period = reading.world.federation.brokerage.match_period
    return bool(reading.reader.raw_rows(_FOR_CYCLE, cycle=next_cycle(reading.world.time, period)))


@part("queue_reports")
def queue_reports(reading: Reading) -> Mapping[str, Any]:
    """Read the reports on queues, with the facts for brokerages."""
    counts = reading["job_counts"]
    return {"queue_reports": reports(reading.reader, reading.world, counts, reading["queue_reports"])}


OF_JOBS = (first_skips, "tasks", "files", "replicas")
"""What brokerages read about the jobs that they place."""

OF_PLACES = (
    *("job_counts", "queue_reports", queue_reports, "link_counts"),
    *("failures", "failed_deliveries", "storage_spaces", "lacking_nodes", advertisements),
)
"""Parts about possible places that brokerages read for all kinds of jobs."""
