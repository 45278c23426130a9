"""Random draws of director and matcher, which the world's seed repeats (P3, P13)."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pilotage.model.world import World


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
