"""Waits in batch systems, and the time that a pilot stays to which the matcher gives nothing (P13, E5)."""

from collections.abc import Mapping, Sequence

from pilotage.model.records.constants import LoopConstants
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS
from pilotage.model.records.work import Pilot

from .task_queues import by_queue, starts_pilots


def expected_wait(pilots: Sequence[Pilot], time: float) -> float:
    """The s that a pilot waits in a batch system: what all live ones waited, over those that started.

    Those that still wait count with what they have waited: where none starts, it grows with each second.
    """
    started = sum(pilot.state not in WAITING_PILOTS for pilot in pilots)
    waited = sum((time if pilot.state in WAITING_PILOTS else pilot.since) - pilot.created for pilot in pilots)
    return max(0.0, waited) / max(1, started)


def expected_waits(pilots: Sequence[Pilot], time: float) -> Mapping[str, float]:
    """The s that a new pilot would wait, by queue, for those that have live pilots."""
    live = [pilot for pilot in pilots if pilot.state in LIVE_PILOTS]
    return {queue: expected_wait(own, time) for queue, own in by_queue(live).items()}


def stay(loops: LoopConstants, queue: Queue, wait: float) -> float:
    """Return the s that a pilot of a queue stays without work where a new one would wait so many s (E5).

    It stays as long as its successor would wait. Whenever the next job comes, the idle time and the job's
    wait are then together at most twice what they would be if that moment were known. Where no new pilot
    would be started, none is worth staying for: ``pilot_idle`` alone counts.
    """
    if not starts_pilots(queue):
        return loops.pilot_idle
    return max(loops.pilot_idle, min(wait, loops.pilot_idle_most))
