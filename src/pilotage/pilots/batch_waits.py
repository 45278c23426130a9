"""Waits in batch systems, and the time that a pilot stays to which the matcher gives nothing (P13, E5)."""

from collections.abc import Mapping, Sequence
from zlib import crc32

from pilotage.model.records.constants import LoopConstants
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS
from pilotage.model.records.work import Pilot

from .task_queues import by_queue, element_of, starts_pilots

CALLS_A_SECOND = 20.0
"""Calls a second that all live pilots together make for nothing but their heartbeats."""

SHORTEST_PACE = 3.0
"""Seconds between two heartbeats at least, unless ``loops.heartbeat`` is shorter."""


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


def pace(loops: LoopConstants, live: int) -> float:
    """Return the s between two heartbeats of a pilot where so many live: ``loops.heartbeat`` at most.

    A pilot learns from the answers that a payload is to stop, or that somebody reads a log. Few pilots may
    call often. Thousands together call no more often than a few.
    """
    return min(loops.heartbeat, max(SHORTEST_PACE, live / CALLS_A_SECOND))


def is_in_the_way(queue: Queue, live: int, busy: int, beyond: int, draw: str) -> bool:
    """Tell whether a pilot without work is to go at once: jobs wait for a place that it holds.

    So many jobs wait at its queue ``beyond`` what it could ever run, and the queue takes no more than the
    ``live`` pilots there, of which at most ``busy`` have work. About as many go as jobs wait: each draws, by
    a text that is another each time.
    """
    if not starts_pilots(queue) or live < element_of(queue).max_pilots:
        return False
    return crc32(draw.encode()) / 2**32 * max(1, live - busy) < beyond
