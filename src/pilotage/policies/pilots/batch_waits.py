"""Waits in batch systems, and how long a pilot without a match stays (P13, E5)."""

from collections.abc import Mapping, Sequence
from zlib import crc32

from pilotage.model.records.constants import LoopConstants
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS
from pilotage.model.records.work import Pilot
from pilotage.policies.pilots.task_queues import by_queue, starts_pilots

CALLS_A_SECOND = 20.0
"""Most calls per second for mere heartbeats, of all live pilots together."""

SHORTEST_PACE = 3.0
"""Shortest time in s between two heartbeats, unless ``loops.heartbeat`` is shorter."""


def expected_wait(pilots: Sequence[Pilot], time: float) -> float:
    """Return the expected wait of a pilot in a batch system in s: the total wait of live pilots, divided by
    the number of started ones.

    Waiting pilots count with their wait so far. So the result grows while none starts.
    """
    started = sum(pilot.state not in WAITING_PILOTS for pilot in pilots)
    waited = sum((time if pilot.state in WAITING_PILOTS else pilot.since) - pilot.created for pilot in pilots)
    return max(0.0, waited) / max(1, started)


def expected_waits(pilots: Sequence[Pilot], time: float) -> Mapping[str, float]:
    """Return the expected wait of a new pilot in s, by queue with live pilots."""
    live = [pilot for pilot in pilots if pilot.state in LIVE_PILOTS]
    return {queue: expected_wait(queue_pilots, time) for queue, queue_pilots in by_queue(live).items()}


def stay(loops: LoopConstants, queue: Queue, wait: float) -> float:
    """Return the s that a pilot of a queue stays without work, if a new one would wait ``wait`` s (E5).

    It stays as long as its successor would wait. Then idle time plus the next job's wait is at most twice the
    optimum for a known arrival. If no new pilot would start, only ``pilot_idle`` counts.
    """
    if not starts_pilots(queue):
        return loops.pilot_idle
    return max(loops.pilot_idle, min(wait, loops.pilot_idle_most))


def pace(loops: LoopConstants, live: int) -> float:
    """Return the s between two heartbeats of a pilot while ``live`` pilots live, at most ``loops.heartbeat``.

    By an answer a pilot learns that it must stop a payload, or that a person reads a log. A few pilots may
    call often. Thousands call as often together as a few do.
    """
    return min(loops.heartbeat, max(SHORTEST_PACE, live / CALLS_A_SECOND))


def is_in_the_way(limit: int, live: int, busy: int, unfit: int, draw: str) -> bool:
    """Return whether a pilot without work should leave immediately, because jobs wait for its place.

    ``unfit`` is the number of waiting jobs that it could never run, ``limit`` the most pilots there, ``live``
    their number, and ``busy`` the number with work. Each pilot decides by a hash of ``draw``, which differs
    each time, so that about as many leave as jobs wait.
    """
    if live < limit:
        return False
    return crc32(draw.encode()) / 2**32 * max(1, live - busy) < unfit
