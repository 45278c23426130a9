"""Queues that count together: a unified queue and its pseudo-queues (B2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.model.records.federation import Federation
from pilotage.model.records.unified_queues import counted_together
from pilotage.policies.brokerage.engine.arrays import Codes, Column


@dataclass(frozen=True, slots=True)
class QueuesTogether:
    """The queues that count together, by their indexes (Q,).

    ``places`` has only queues that do not count alone. ``first`` (Q,) is the first queue that counts together
    with each.
    """

    places: Mapping[int, Sequence[int]]
    first: Codes

    @classmethod
    def of(cls, federation: Federation, index: Mapping[str, int]) -> "QueuesTogether":
        """Return the queues of a federation that count together, given the index of each queue."""
        first = np.arange(len(index), dtype=np.intp)
        places: dict[int, Sequence[int]] = {}
        for name, names in counted_together(federation).items():
            if len(names) > 1:
                places[index[name]] = [index[part] for part in names]
                first[index[name]] = index[names[0]]
        return cls(places, first)

    def __bool__(self) -> bool:
        return bool(self.places)

    def queues(self, queue: int) -> Sequence[int]:
        """Return the indexes of the queues that count together with a queue, itself included."""
        return self.places.get(queue, (queue,))

    def sum(self, column: Column) -> Column:
        """Return the sum over the queues that count together, at each of them."""
        return self._merged(column, np.sum)

    def latest(self, times: Column) -> Column:
        """Return the latest time at any of the queues that count together; NaN if there is none."""
        return self._merged(times, np.fmax.reduce)

    def mean(self, values: Column, weights: Column) -> Column:
        """Return the weighted mean over the queues that count together, without unknown values."""
        merged = self.latest(values)
        for queue, places in self.places.items():
            known_places = [place for place in places if weights[place] and not np.isnan(values[place])]
            if known_places:
                merged[queue] = np.average(values[known_places], weights=weights[known_places])
        return merged

    def _merged(self, column: Column, merge: Callable[[Column], float]) -> Column:
        if not self.places:
            return column
        merged = column.copy()
        for queue, places in self.places.items():
            merged[queue] = merge(column[places])
        return merged
