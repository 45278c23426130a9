"""Fast rebrokerage (T): how many excess jobs a queue has, by global share."""

from collections import Counter
from collections.abc import Iterable

from pilotage.model.documents.world import JobCount
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import QUEUED_JOBS, JobState

from .timeouts import keeping_queues

MOVED_FAST = (JobState.ASSIGNED, JobState.ACTIVATED, JobState.STARTING)
"""States from which fast rebrokerage takes jobs. A DEFINED job has no queue."""


def excess(federation: Federation, counts: Iterable[JobCount]) -> dict[tuple[str, str], int]:
    """Return the queued jobs beyond all three thresholds, by queue and share, if there are any.

    The thresholds are ``fast_rebro_threshold_nqnr_ratio`` times the running jobs, ``..._nqueue_frac`` of the
    share's queued jobs at any queue, and ``..._nqueue`` of the share, without which nothing moves. Queues
    with ``num_slots``, and those without time-outs, keep their jobs. Slots of our own pilots do not count as
    ``num_slots`` (B30).
    """
    constants = federation.timeouts
    queued: Counter[tuple[str, str]] = Counter()
    running: Counter[tuple[str, str]] = Counter()
    everywhere: Counter[str] = Counter()
    for count in counts:
        if count.queue and count.state in QUEUED_JOBS:
            queued[count.queue, count.share] += count.jobs
            everywhere[count.share] += count.jobs
        elif count.state is JobState.RUNNING:
            running[count.queue, count.share] += count.jobs
    kept = keeping_queues(federation)
    found: dict[tuple[str, str], int] = {}
    for (queue, share), jobs in sorted(queued.items()):
        if share not in constants.fast_rebro_threshold_nqueue or queue in kept:
            continue
        threshold = max(
            constants.fast_rebro_threshold_nqnr_ratio * running[queue, share],
            constants.fast_rebro_threshold_nqueue_frac * everywhere[share],
            constants.fast_rebro_threshold_nqueue[share],
        )
        if jobs > threshold:
            found[queue, share] = int(jobs - threshold)
    return {place: jobs for place, jobs in found.items() if jobs}
