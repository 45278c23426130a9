"""Idle slots: payloads that running pilots could start at once if their queues had any."""

from collections import Counter
from collections.abc import Iterable

from pilotage.model.documents.world import JobCount, QueueReport
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import AT_A_PILOT, JobState


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
