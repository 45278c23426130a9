"""Rules that director and matcher share: walltimes, open queues, and pilots that count (P1, P4, P13)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf

from pilotage.model.records.constants import DirectorConstants
from pilotage.model.records.federation import UNKNOWN_CORE_POWER, ComputingElement, Queue
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import WAITING_PILOTS
from pilotage.model.records.work import Pilot, Requirements

CLOSED = ("offline", "paused")
"""Statuses in which a queue starts nothing: it is given no pilots, and the pilots there are given no jobs."""


def is_open(queue: Queue) -> bool:
    """Tell whether the queue starts anything. A queue without new brokerage still works off what it has."""
    return queue.status not in CLOSED


FIRST_LOSS = 0.1
"""Part of its walltime that a pilot may lose before it asks for the first time."""


def walltime_left(request: MatchRequest, pilot: Pilot) -> float:
    """The walltime, in s, that counts as left to a pilot.

    One that has not run any job counts with all that it was submitted for if it has lost little of it:
    starting up takes some, and a job as long as its queue allows would never be matched. One whose slot is
    shorter than what was ordered says so, and gets nothing that cannot end in time.
    """
    fresh = pilot.matched == 0 and request.walltime >= (1 - FIRST_LOSS) * pilot.walltime
    return max(request.walltime, pilot.walltime) if fresh else request.walltime


def walltime_needed(wanted: Requirements, queue: Queue) -> float:
    """The walltime, in s, that a pilot must have left for these jobs.

    Work is rounded up to a segment (P1), which may take longer than a queue gives though the job itself
    fits there (B21): then all that the queue gives is enough.
    """
    return min(seconds_at(wanted, queue), queue.max_walltime or inf)


def seconds_at(wanted: Requirements, queue: Queue) -> float:
    """The walltime of a job at a queue in s: its work over the power of its cores (P1)."""
    return wanted.seconds(queue.core_power or UNKNOWN_CORE_POWER)


def starts_pilots(queue: Queue) -> bool:
    """Tell whether pilots are started at a queue from here."""
    return queue.computing_element is not None and is_open(queue)


def holds_room(pilot: Pilot, director: DirectorConstants, time: float) -> bool:
    """Tell whether a live pilot counts at a time, in s since 1970: not where it waited too long (P4)."""
    longest = director.max_pilot_waiting_hours * 3600
    return pilot.state not in WAITING_PILOTS or time - pilot.created <= longest


def element_of(queue: Queue) -> ComputingElement:
    """The computing element of a queue. Raises ValueError where it has none."""
    if queue.computing_element is None:
        raise ValueError(f"queue {queue.name!r} has no computing element, so no pilot can reach it")
    return queue.computing_element


def size(wanted: Requirements, queue: Queue, slots: int) -> tuple[int, float, float]:
    """Cores, memory in MB and walltime in s of a pilot of so many slots for a task queue.

    It is as long as its computing element says, longer where its own task queue needs it.
    """
    element = element_of(queue)
    walltime = max(element.pilot_walltime, walltime_needed(wanted, queue))
    return (
        wanted.cores * slots,
        max(wanted.memory, queue.min_memory) * slots,
        min(walltime, queue.max_walltime or inf),
    )


def by_queue(pilots: Sequence[Pilot]) -> Mapping[str, list[Pilot]]:
    """Pilots by queue."""
    found: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in pilots:
        found[pilot.queue].append(pilot)
    return found
