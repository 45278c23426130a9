"""Rules that director and matcher share: walltimes, open queues, and pilots that count (P1, P4, P13)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf

from pilotage.model.records.federation import UNKNOWN_CORE_POWER, ComputingElement, Queue
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import Pilot, Requirements

CLOSED = ("offline", "paused", "draining")
"""Statuses in which a queue starts nothing: it gets no pilots, and the pilots there get no jobs."""


def is_open(queue: Queue) -> bool:
    """Return whether the queue starts pilots and jobs.

    A queue without new brokerage is open: it still runs the jobs that it has.
    """
    return queue.status not in CLOSED


FIRST_LOSS = 0.1
"""Part of its walltime that a pilot may lose before its first request."""


def walltime_left(request: MatchRequest, pilot: Pilot) -> float:
    """Return the walltime in s that a pilot counts as having left.

    A pilot that has run no job counts with its full walltime if it has lost little of it. Starting up takes
    some time, and otherwise a job as long as its queue allows would never match. A pilot with a slot shorter
    than ordered reports its real walltime, and gets only jobs that can end in time.
    """
    fresh = pilot.matched == 0 and request.walltime >= (1 - FIRST_LOSS) * pilot.walltime
    return max(request.walltime, pilot.walltime) if fresh else request.walltime


def walltime_needed(requirements: Requirements, queue: Queue) -> float:
    """Return the walltime in s that a pilot must have left for these jobs.

    Work rounds up to a segment (P1), which may exceed a queue's limit although the job itself fits there
    (B21). Then the queue's full walltime is enough.
    """
    return min(seconds_at(requirements, queue), queue.max_walltime or inf)


def seconds_at(requirements: Requirements, queue: Queue) -> float:
    """Return the walltime of a job at a queue in s: its work over the power of its cores (P1)."""
    return requirements.seconds(queue.core_power or UNKNOWN_CORE_POWER)


def starts_pilots(queue: Queue) -> bool:
    """Return whether we start pilots at a queue."""
    return queue.computing_element is not None and is_open(queue)


def element_of(queue: Queue) -> ComputingElement:
    """Return the computing element of a queue. Raises ValueError if it has none."""
    if queue.computing_element is None:
        raise ValueError(f"queue {queue.name!r} has no computing element, so no pilot can reach it")
    return queue.computing_element


def size(requirements: Requirements, queue: Queue, slots: int) -> tuple[int, float, float]:
    """Return cores, memory in MB and walltime in s of a pilot with that many slots for a task queue.

    Its walltime is the computing element's ``pilot_walltime``, or more if its own task queue needs more.
    """
    element = element_of(queue)
    walltime = max(element.pilot_walltime, walltime_needed(requirements, queue))
    return (
        requirements.cores * slots,
        max(requirements.memory, queue.min_memory) * slots,
        min(walltime, queue.max_walltime or inf),
    )


def by_queue(pilots: Sequence[Pilot]) -> Mapping[str, list[Pilot]]:
    """Return pilots by queue."""
    queues: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in pilots:
        queues[pilot.queue].append(pilot)
    return queues
