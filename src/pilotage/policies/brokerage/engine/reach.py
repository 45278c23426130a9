"""Storages that a file can reach from its replicas, as masks (B19)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.records.federation import Storage
from pilotage.model.rules.sources import Sources


class Reach:
    """The rule of ``Sources`` with codes instead of names: masks over storages in order of name, shape
    (S,)."""

    def __init__(self, sources: Sources, storages: Sequence[Storage]) -> None:
        self.sources = sources
        self.names = tuple(storage.name for storage in storages)
        self._sites = [storage.site for storage in storages]
        self._masks: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        self._readers: dict[tuple[int, ...], NDArray[np.bool_]] = {}

    def of(self, holders: tuple[int, ...]) -> NDArray[np.bool_]:
        """Return the storages that hold the file, or that it can be brought to, given its holders."""
        if holders not in self._masks:
            sites = frozenset[str]().union(
                *(self.sources.sites_reached(self.names[code]) for code in holders)
            )
            mask = np.array([site in sites for site in self._sites], dtype=bool)
            # A storage that holds it needs no transfer, even if nothing can read from it remotely.
            mask[list(holders)] = True
            self._masks[holders] = mask
        return self._masks[holders]

    def readers(self, holders: tuple[int, ...]) -> NDArray[np.bool_]:
        """Return the storages with pilots that may read the file, there or remotely, given its holders (E3).

        Circuit breakers of storages matter later, when a pilot takes a job.
        """
        if holders not in self._readers:
            mask = np.zeros(len(self.names), dtype=bool)
            for code in holders:
                mask |= self._readers_of(code) if len(holders) == 1 else self.readers((code,))
            self._readers[holders] = mask
        return self._readers[holders]

    def _readers_of(self, code: int) -> NDArray[np.bool_]:
        source = self.sources.storage(self.names[code])
        sites: frozenset[str] = frozenset()
        if source.remote_reads and not source.tape:
            reached = self.sources.sites_reached(source.name)
            sites = frozenset(site for site in reached if self.sources.rate(source.site, site) is not None)
        mask = np.array([site in sites for site in self._sites], dtype=bool)
        mask[code] = True
        return mask

    def held_up(self, holders: tuple[int, ...], breakers: Sequence[CircuitBreaker]) -> NDArray[np.intp]:
        """Return the number, from 1, of the breaker that blocks a file on its way to each storage; 0 means
        none (F4)."""
        breaker_numbers = np.zeros(len(self.names), dtype=np.intp)
        for place, name in enumerate(self.names):
            if place in holders:
                continue
            reaching = (
                self.names[code]
                for code in holders
                if self._sites[place] in self.sources.sites_reached(self.names[code])
            )
            numbers = [_holding(breakers, source, name) for source in reaching]
            if numbers and all(numbers):
                breaker_numbers[place] = numbers[0]
        return breaker_numbers


def _holding(breakers: Sequence[CircuitBreaker], source: str, destination: str) -> int:
    concerned = (breaker.place[0] and breaker.concerns(source, destination) for breaker in breakers)
    return next((number for number, concerns in enumerate(concerned, 1) if concerns), 0)
