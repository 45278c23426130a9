"""Readers among the jobs of one pass, which together must not exceed the rates of links (E3)."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class Readers:
    """MB/s that the jobs chosen in this pass read, by source site.

    The pass knows earlier readers of the taking site, and has subtracted them from its ``left``.
    """

    _chosen: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def leave_room(self, reads: Mapping[str, float], left: Mapping[str, float], run: float) -> bool:
        """Return whether these MB by site can be read within a run of that many s, given the MB/s left by
        site."""
        return sum(self._seconds(site, size, left) for site, size in reads.items()) <= run

    def add(self, rates: Mapping[str, float]) -> None:
        """Count one more job, which reads this many MB/s by site."""
        for site, rate in rates.items():
            self._chosen[site] += rate

    def copy(self) -> "Readers":
        """Return a copy for jobs that may be chosen later."""
        return Readers(self._chosen.copy())

    def _seconds(self, site: str, megabytes: float, left: Mapping[str, float]) -> float:
        free = left[site] - self._chosen[site]
        return megabytes / free if free > 0 else inf
