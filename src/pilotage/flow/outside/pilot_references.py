"""What batch systems call our pilots, by the queue that these were submitted to (M5)."""

from collections.abc import Iterable, Sequence

from pilotage.model.records.federation import Queue
from pilotage.model.records.states import LIVE_PILOTS
from pilotage.model.records.work import Pilot


def _submitted_to(pilots: Iterable[Pilot], queue: str, server: str) -> list[str]:
    """Return the references of live pilots that were submitted to a queue's server."""
    return [
        pilot.reference
        for pilot in pilots
        if pilot.state in LIVE_PILOTS and pilot.reference and (pilot.queue, pilot.broker) == (queue, server)
    ]


def submitted_beside(
    pilots: Sequence[Pilot], queues: Iterable[Queue], queue: Queue, server: str
) -> dict[str, list[str]]:
    """Return the references of live pilots at a queue's server, by queue.

    Other queues of its site may lead to the same batch system, if their computing elements have its kind.
    """
    return {
        candidate.name: _submitted_to(pilots, candidate.name, server)
        for candidate in queues
        if candidate.site == queue.site and _kind(candidate) == _kind(queue)
    }


def _kind(queue: Queue) -> str:
    return queue.computing_element.kind if queue.computing_element else ""
