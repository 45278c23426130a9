"""Random draws of director and matcher, which the world's seed repeats (P2, P3, P13)."""

import numpy as np

from pilotage.model.world import World

from .apportionment import Floats, Ints


class Turns:
    """The task queues whose turn it is to give a pilot a job, one after the other (P13).

    Each is drawn in proportion to the priority of the job at its head, as a share of its owner: those of one
    owner are together as likely as the one with the highest priority alone. ``heads`` are these priorities,
    0 for what has no job; ``owners`` are numbers from 0.
    """

    def __init__(self, seed: int, pilot: int, heads: Floats, owners: Ints) -> None:
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, pilot])))
        self._heads, self._owners = heads.copy(), owners
        self._edges: Floats | None = None

    def draw(self) -> int | None:
        """The next task queue by its place in ``heads``; None where none has a job."""
        if self._edges is None:
            self._edges = np.cumsum(owner_shares(self._heads, self._owners))
        edges = self._edges
        if not len(edges) or edges[-1] <= 0:
            return None
        # The last edge may be what the rounded product reaches: the first that is as high is the last one.
        mark = min(self._random.random() * edges[-1], np.nextafter(edges[-1], 0))
        return int(np.searchsorted(edges, mark, side="right"))

    def follow(self, place: int, head: float) -> None:
        """Go on with another priority at the head of a task queue: 0 where nothing is left that fits."""
        if head == self._heads[place]:
            return
        self._heads[place] = head
        self._edges = None


def owner_shares(priorities: Floats, owners: Ints) -> Floats:
    """Priorities as shares of their owners: those of one owner are together the highest of them (P2, P13).

    So nobody has more for spreading work over many task queues. ``owners`` are numbers from 0.
    """
    if len(priorities) < 2:
        return priorities
    count = int(owners.max()) + 1
    highest = np.zeros(count)
    np.maximum.at(highest, owners, priorities)
    sums = np.bincount(owners, priorities, minlength=count).astype(np.float64)
    parts = np.divide(highest, sums, out=np.zeros(count), where=sums > 0)
    shares: Floats = priorities * parts[owners]
    return shares


def randomness(world: World, *names: str) -> np.random.Generator:
    """Random numbers that depend on the world's seed and these names alone, not on the order of records."""
    return np.random.default_rng([world.seed, *"\0".join(names).encode()])
