"""Random draws of director and matcher, repeatable by the world's seed (P2, P3, P13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import nextafter

import numpy as np
from numpy.typing import NDArray

from pilotage.model.documents.world import World
from pilotage.policies.pilots.apportionment import Floats, Ints
from pilotage.policies.pilots.share_turns import ShareTurns

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WaitingShares:
    """The global shares of task queues. A share is chosen first, then one of its task queues is drawn (P13).

    ``numbers`` are indexes into ``names``, one for each task queue.
    """

    numbers: Ints
    names: Sequence[str]
    turns: ShareTurns

    @classmethod
    def among(cls, numbers: Ints, names: Sequence[str], turns: ShareTurns) -> "WaitingShares | None":
        """Return the shares of some task queues; None if all belong to one."""
        several = len(names) > 1 and len(numbers) > 1 and bool((numbers != numbers[0]).any())
        return cls(numbers, names, turns) if several else None

    def mask(self, heads: Floats) -> Bools:
        """Return which task queues belong to the next share. Only shares with a job in ``heads`` count."""
        present = np.flatnonzero(np.bincount(self.numbers[heads > 0], minlength=len(self.names))).tolist()
        first = self.turns.first(self.names[number] for number in present) if present else ""
        of_share: Bools = self.numbers == (self.names.index(first) if present else -1)
        return of_share


class WeightedDraw:
    """Draws task queues for a pilot, one for each job (P13).

    The probability is in proportion to the priority of the first job, scaled so that an owner's task queues
    together are as likely as the one with the highest priority alone. ``heads`` are the priorities, 0 for a
    task queue without a job. ``owners`` are numbers from 0. ``edges`` are the running sums of the
    ``weights``, if known. With several global ``shares``, only task queues of the next share are drawn.
    """

    def __init__(
        self,
        seed: int,
        pilot: int,
        heads: Floats,
        owners: Ints,
        edges: Floats | None = None,
        shares: WaitingShares | None = None,
    ) -> None:
        self._names = seed, pilot
        self._shares = shares
        self._drawn = 0
        self._heads, self._owners = heads, owners
        # Others share the given heads: copy them before the first change.
        self._is_own = False
        self._edges = edges

    def draw(self) -> int | None:
        """Return the next task queue by its index in ``heads``; None if none has a job."""
        if self._shares is not None:
            edges = weights(self._heads * self._shares.mask(self._heads), self._owners).cumsum()
        else:
            if self._edges is None:
                self._edges = weights(self._heads, self._owners).cumsum()
            edges = self._edges
        total = float(edges[-1]) if len(edges) else 0.0
        if total <= 0:
            return None
        # Rounding could make the product equal to the last edge: stay below it.
        mark = min(self._uniform() * total, nextafter(total, 0))
        return int(edges.searchsorted(mark, side="right"))

    def _uniform(self) -> float:
        """Return the next number in [0, 1). A hash takes a tenth of the time for seeding a generator."""
        self._drawn += 1
        digest = blake2b(b"%d %d %d" % (*self._names, self._drawn), digest_size=8).digest()
        # A float holds 53 bits exactly, so the result is below 1.
        return (int.from_bytes(digest, "big") >> 11) * 2.0**-53

    def follow(self, place: int, head: float) -> None:
        """Set the priority of a task queue's first job: 0 if nothing that fits is left."""
        if head == self._heads[place]:
            return
        if not self._is_own:
            self._heads, self._is_own = self._heads.copy(), True
        self._heads[place] = head
        self._edges = None


def weights(heads: Floats, owners: Ints) -> Floats:
    """Return the weights of task queues in the draw: priorities of their first jobs, scaled by owner."""
    # With a single owner, all would be scaled by the same factor.
    return owner_shares(heads, owners) if owners.any() else heads


def owner_shares(priorities: Floats, owners: Ints) -> Floats:
    """Scale priorities so that the sum over each owner's task queues is the owner's highest priority (P12,
    P13).

    So an owner does not gain by spreading work over many task queues. ``owners`` are numbers from 0.
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
    """Return a random generator that depends only on the world's seed and these names, not on the order of
    records."""
    return np.random.default_rng([world.seed, *"\0".join(names).encode()])
