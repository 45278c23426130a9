"""Fast rebrokerage (T): excess jobs of a queue and share, idle slots, where a job does not return (B30)."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from pilotage.model.documents.world import JobCount, QueueReport
from pilotage.model.records.federation import Federation
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.states import AT_A_PILOT, QUEUED_JOBS, JobState
from pilotage.model.records.unified_queues import counted_together
from pilotage.model.records.work import Job
from pilotage.model.rules.timeouts import keeping_queues

MOVED_FAST = (JobState.ASSIGNED, JobState.ACTIVATED, JobState.STARTING)
"""States from which fast rebrokerage takes jobs. A DEFINED job has no queue."""


def excess(federation: Federation, counts: Iterable[JobCount]) -> dict[tuple[str, str], int]:
    """Return how many queued jobs are beyond all three thresholds, by queue and share, if there are any.

    The thresholds are ``fast_rebro_threshold_nqnr_ratio`` times the running jobs, ``..._nqueue_frac`` of the
    share's queued jobs at any queue, and ``..._nqueue`` of the share, without which nothing moves. Queues
    with ``num_slots``, and those without time-outs, keep their jobs. Slots of our own pilots do not count as
    ``num_slots`` (B30). Pseudo-queues count together (B2); their jobs leave queue by queue, in order.
    """
    constants, together, keeping = (
        federation.timeouts,
        counted_together(federation),
        keeping_queues(federation),
    )
    queued: Counter[tuple[str, str]] = Counter()
    running: Counter[tuple[str, str]] = Counter()
    everywhere: Counter[str] = Counter()
    for count in counts:
        if count.queue and count.state in QUEUED_JOBS:
            queued[count.queue, count.share] += count.jobs
            everywhere[count.share] += count.jobs
        elif count.state is JobState.RUNNING:
            running[count.queue, count.share] += count.jobs
    places = {(together.get(queue, (queue,)), share) for queue, share in queued}
    surplus: dict[tuple[str, str], int] = {}
    for queues, share in sorted(places):
        if share not in constants.fast_rebro_threshold_nqueue:
            continue
        threshold = max(
            constants.fast_rebro_threshold_nqnr_ratio * sum(running[queue, share] for queue in queues),
            constants.fast_rebro_threshold_nqueue_frac * everywhere[share],
            constants.fast_rebro_threshold_nqueue[share],
        )
        rest = int(sum(queued[queue, share] for queue in queues) - threshold)
        for queue in queues:
            if rest > 0 and queue not in keeping:
                surplus[queue, share] = min(rest, queued[queue, share])
                rest -= surplus[queue, share]
    return {place: jobs for place, jobs in surplus.items() if jobs}


def is_pinned(spec: TaskSpec, queue: str, federation: Federation) -> bool:
    """Return whether a task names a queue, or its unified queue (B2), and no other: its jobs stay there."""
    named, places = (
        set(spec.queues),
        {candidate.name: candidate.parent or candidate.name for candidate in federation.queues},
    )
    here = places.get(queue, queue)
    return bool(named) and all(place == here for name, place in places.items() if {name, place} & named)


def departures(text: str) -> Mapping[str, float]:
    """Return the queues that a job left (``Job.departures``), and when in s since 1970."""
    return json.loads(text) if text else {}


def with_departure(job: Job, time: float) -> str:
    """Return the departures of a job that leaves its queue at a time in s since 1970.

    It does not return there until a pilot has called from that queue (B30).
    """
    return json.dumps({**departures(job.departures), job.queue: round(time, 3)}, sort_keys=True)


def idle_slots(
    federation: Federation, reports: Iterable[QueueReport], counts: Iterable[JobCount]
) -> dict[str, int]:
    """Return the idle slots by queue, if any: the slots of running pilots, minus the jobs that wait for
    them or run in them."""
    jobs: Counter[str] = Counter()
    for count in counts:
        if count.state is JobState.ACTIVATED or count.state in AT_A_PILOT:
            jobs[count.queue] += count.jobs
    slots = {
        queue.name: queue.computing_element.pilot_slots
        for queue in federation.queues
        if queue.computing_element is not None
    }
    slots_left = {
        report.queue: report.running_pilots * slots[report.queue] - jobs[report.queue]
        for report in reports
        if report.queue in slots
    }
    return {queue: idle for queue, idle in sorted(slots_left.items()) if idle > 0}
