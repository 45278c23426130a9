"""Exact shares of a whole number: in proportion to weights, no more than each may take (P4, P12)."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ALMOST = 1e-6
"""What a sum of parts may be off by, as its terms are rounded."""


def apportion(weights: Floats, most: Ints, total: int, random: np.random.Generator) -> Ints:
    """Share ``total`` in proportion to ``weights``, at most ``most`` to each; all of it where that can be.

    Weights are above 0. What one cannot take goes to the others, again in proportion. Each gets its exact
    part, rounded down or up by a draw that has this part as its mean: however small a part is, it comes up
    as often as it should.
    """
    if total <= 0:
        return np.zeros_like(most)
    if int(most.sum()) <= total:
        return most.copy()
    level = _level(weights, most, total)
    full = weights * level >= most
    left = total - int(most[full].sum())
    edges = np.cumsum(np.where(full, 0.0, weights * level))
    # The last edge is to be exactly what is left: a rounding error must not cost or add a pilot.
    edges[edges > left - _ALMOST] = left
    # One draw for all edges: so the rounded parts always add up to the total.
    marks = np.floor(edges + random.random()).astype(np.int64)
    return np.where(full, most, np.diff(marks, prepend=0))


def _level(weights: Floats, most: Ints, total: int) -> float:
    """Find the factor of weights with which the parts, each cut at its most, add up to the total."""
    # In the order in which parts reach their most as the factor grows.
    order = np.argsort(most / weights, kind="stable")
    cut = np.concatenate([[0.0], np.cumsum(most[order])[:-1]])
    rest = np.cumsum(weights[order][::-1])[::-1]
    levels = (total - cut) / rest
    fits = levels * weights[order] <= most[order]
    return float(levels[np.argmax(fits)])
