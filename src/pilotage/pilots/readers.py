"""Readers among the jobs of one look, which together hold no more than links carry (E3)."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class Readers:
    """MB/s that the jobs chosen since a look read, by the site that these come from.

    What pilots of the taking site read before is known to the look, and left out of what it has as ``left``.
    """

    _chosen: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def leave_room(self, reads: Mapping[str, float], left: Mapping[str, float], run: float) -> bool:
        """Tell whether MB by site are still read within a run of so many s, given the MB/s left by site."""
        return sum(self._seconds(site, size, left) for site, size in reads.items()) <= run

    def add(self, rates: Mapping[str, float]) -> None:
        """Count one more job, which reads so many MB/s by site."""
        for site, rate in rates.items():
            self._chosen[site] += rate

    def copy(self) -> "Readers":
        """The same for jobs that may yet be chosen."""
        return Readers(self._chosen.copy())

    def _seconds(self, site: str, megabytes: float, left: Mapping[str, float]) -> float:
        free = left[site] - self._chosen[site]
        return megabytes / free if free > 0 else inf
