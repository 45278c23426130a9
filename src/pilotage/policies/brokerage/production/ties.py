"""The order of queues with equal weight (B37)."""

from numpy.random import default_rng

from pilotage.policies.brokerage.engine.arrays import Codes, Column


class Ties:
    """Draws the order of queues with equal weight for each group, from the world's seed (B37)."""

    def __init__(self, seed: int, queues: int, groups: int) -> None:
        self._order = default_rng(seed).permutation(queues)
        self._shifts = iter(default_rng([seed, 1]).integers(queues, size=groups).tolist())

    def draw(self) -> int:
        """Return the number drawn for the next group."""
        drawn: int = next(self._shifts)
        return drawn

    def of(self, queues: Codes, drawn: int) -> Column:
        """Return the rank of each queue among queues of equal weight, for a number that ``draw`` returned."""
        places: Column = (self._order[queues] + drawn) % len(self._order)
        return places
