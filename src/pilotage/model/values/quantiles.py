"""The quantile that all parts of Pilotage show."""

from collections.abc import Sequence
from math import ceil


def quantile(values: Sequence[float], part: float) -> float:
    """Return the smallest of the values that at least ``part`` of them, above 0 and up to 1, do not exceed.

    Without values it is 0.
    """
    return sorted(values)[ceil(part * len(values)) - 1] if values else 0.0
