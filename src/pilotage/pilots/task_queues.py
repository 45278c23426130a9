"""Rules that director and matcher share: which pilots may run which jobs (P1, P7, P13)."""

from collections.abc import Sequence
from itertools import chain
from math import inf

import numpy as np
from numpy.typing import NDArray

from pilotage.model.federation import UNKNOWN_CORE_POWER, Queue
from pilotage.model.identity import Identity
from pilotage.model.work import Pilot, PilotKind, Requirements
from pilotage.model.world import MatchRequest, World

CLOSED = ("offline", "paused")
"""Statuses in which a queue starts nothing: it is given no pilots, and the pilots there are given no jobs."""


def is_open(queue: Queue) -> bool:
    """Tell whether the queue starts anything. A queue without new brokerage still works off what it has."""
    return queue.status not in CLOSED


def may_run(kind: PilotKind, owner: Identity, wanted: Requirements) -> bool:
    """Tell whether a pilot may run such jobs (P7): its owner's and group's, or all but private ones."""
    if kind == "generic":
        return not wanted.private
    return (owner.vo, owner.group, owner.name) == (wanted.vo, wanted.group, wanted.owner)


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


def turns(seed: int, pilot: int, offers: Sequence[Sequence[int]]) -> list[int]:
    """In which order the jobs of task queues come up, as the index of the task queue of each (P13).

    ``offers`` has the priorities of the first jobs of each. Every task queue is a stream of arrivals whose
    next gap is -ln(U) / priority of the job at its head. The stream that is first at any moment is drawn
    exactly in proportion to priority, and one that has run dry or no longer fits changes nothing for the
    others, since such gaps have no memory.
    """
    lengths = np.array([len(offer) for offer in offers], dtype=np.int64)
    owners = np.repeat(np.arange(len(offers)), lengths)
    gaps = _gaps(seed, pilot, np.fromiter(chain.from_iterable(offers), dtype=float, count=int(lengths.sum())))
    arrivals = np.cumsum(gaps)
    starts = np.cumsum(lengths) - lengths
    filled = lengths > 0
    before = np.zeros(len(offers))
    before[filled] = (arrivals - gaps)[starts[filled]]
    order: list[int] = owners[np.argsort(arrivals - before[owners], kind="stable")].tolist()
    return order


def first_turn(seed: int, pilot: int, heads: NDArray[np.float64]) -> int:
    """The first of :func:`turns` where every task queue offers one job."""
    return int(_gaps(seed, pilot, heads).argmin())


def _gaps(seed: int, pilot: int, priorities: NDArray[np.float64]) -> NDArray[np.float64]:
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, pilot])))
    gaps: NDArray[np.float64] = random.standard_exponential(len(priorities)) / np.maximum(priorities, 1)
    return gaps


def randomness(world: World, *names: str) -> np.random.Generator:
    """Random numbers that depend on the world's seed and these names alone, not on the order of records."""
    return np.random.default_rng([world.seed, *"\0".join(names).encode()])
