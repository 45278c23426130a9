"""Exact shares of a whole number, in proportion to weights, with a limit for each (P4, P12)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ALMOST = 1e-6
"""Tolerance for rounding errors in a sum of parts."""


def apportion(weights: Floats, limits: Ints, total: int, random: np.random.Generator) -> Ints:
    """Divide ``total`` in proportion to ``weights``, at most ``limits`` for each, and all of it if possible.

    Weights are above 0. If one reaches its limit, the others share the rest in proportion. Each gets its
    exact part, rounded down or up at random, so that the mean is exact even for a small part.
    """
    if total <= 0:
        return np.zeros_like(limits)
    if int(limits.sum()) <= total:
        return limits.copy()
    level = _level(weights, limits, total)
    full = weights * level >= limits
    rest = total - int(limits[full].sum())
    edges = np.cumsum(np.where(full, 0.0, weights * level))
    # The last edge must be exactly the rest: a rounding error must not cost or add a pilot.
    edges[edges > rest - _ALMOST] = rest
    # One draw for all edges, so that the rounded parts always add up to the total.
    marks = np.floor(edges + random.random()).astype(np.int64)
    return np.where(full, limits, np.diff(marks, prepend=0))


def _level(weights: Floats, limits: Ints, total: int) -> float:
    """Return the factor f such that the parts, min(f * weight, limit), add up to the total."""
    # Sort parts: the ones that reach their limit with a small factor come first.
    order = np.argsort(limits / weights, kind="stable")
    cut = np.concatenate([[0.0], np.cumsum(limits[order])[:-1]])
    rest = np.cumsum(weights[order][::-1])[::-1]
    levels = (total - cut) / rest
    fits = levels * weights[order] <= limits[order]
    return float(levels[np.argmax(fits)])


@dataclass(frozen=True, slots=True)
class Wants:
    """Columns over task queues, and the most pilots in all; None means as many as requested.

    ``means`` are the weights for sharing room (P4). ``targets`` are the requests. The limit is ``bounds``
    minus ``waiting``, the pilots that already wait for the task queue.
    """

    means: Floats
    targets: Ints
    bounds: Ints
    waiting: Ints
    total: int | None = None

    @property
    def requests(self) -> Ints:
        """Return the requested pilots."""
        pilots: Ints = np.maximum(0, np.minimum(self.targets, self.bounds - self.waiting))
        return pilots
