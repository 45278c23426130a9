"""Measurements of this process: kept in memory, and added to the store from time to time.

A transaction for each measurement would cost more than the measured work.
"""

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from threading import Lock
from typing import NamedTuple

from pilotage.model.records.measurements import Measurement

SUM = "sum"
"""The part of a histogram that adds up its values. Other parts count values by their bucket's upper bound."""


class MeasuredKey(NamedTuple):
    """The key of a sum: the measure's name, the values of its labels, and the part of a histogram."""

    name: str
    labels: tuple[str, ...]
    part: str


Sums = Mapping[MeasuredKey, float]


class Measurements:
    """Sums and histograms since they were last taken. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sums: dict[MeasuredKey, float] = defaultdict(float)
        self._latest: dict[tuple[str, str], float] = {}

    def count(self, measure: Measurement, labels: Sequence[str] = (), value: float = 1) -> None:
        """Add to a sum."""
        with self._lock:
            self._sums[MeasuredKey(measure.name, tuple(labels), "")] += value

    def observe(self, measure: Measurement, labels: Sequence[str], value: float) -> None:
        """Add a value to a histogram. A negative value, from clocks that differ, counts as 0."""
        value = max(0.0, value)
        with self._lock:
            for part, added in ((bucket(measure, value), 1.0), (SUM, value)):
                self._sums[MeasuredKey(measure.name, tuple(labels), part)] += added

    def note(self, name: str, label: str, moment: float) -> None:
        """Keep the latest moment, in s since 1970 UTC."""
        with self._lock:
            self._latest[name, label] = max(moment, self._latest.get((name, label), -inf))

    def add(self, sums: Sums) -> None:
        """Add the sums of a commit, or sums that could not be written before."""
        with self._lock:
            for key, value in sums.items():
                self._sums[key] += value

    @contextmanager
    def timed(self, measure: Measurement, labels: Sequence[str] = ()) -> Iterator[None]:
        """Observe the seconds of a block, also of one that fails."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.observe(measure, labels, time.perf_counter() - began)

    def take(self) -> tuple[Sums, Mapping[tuple[str, str], float]]:
        """Return the sums and the latest moments, and start again."""
        with self._lock:
            sums, self._sums = self._sums, defaultdict(float)
            latest, self._latest = self._latest, {}
            return sums, latest


def bucket(measure: Measurement, value: float) -> str:
    """Return the upper bound of a value's bucket."""
    place = bisect_left(measure.bounds, value)
    return repr(measure.bounds[place]) if place < len(measure.bounds) else "inf"
