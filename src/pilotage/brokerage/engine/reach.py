"""Storages to which a file can be brought from those that hold it, as masks (B19)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pilotage.model.records.federation import Storage
from pilotage.model.records.storage_rests import StorageRest
from pilotage.model.rules.sources import Sources


class Reach:
    """The rule of :class:`Sources` by code: storages in the order of their names, shape (S,)."""

    def __init__(self, sources: Sources, storages: Sequence[Storage]) -> None:
        self.sources = sources
        self.names = tuple(storage.name for storage in storages)
        self._sites = [storage.site for storage in storages]
        self._masks: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        self._readers: dict[tuple[int, ...], NDArray[np.bool_]] = {}

    def of(self, holders: tuple[int, ...]) -> NDArray[np.bool_]:
        """Storages that have a file which these hold, or to which it can be brought."""
        if holders not in self._masks:
            sites = frozenset[str]().union(
                *(self.sources.sites_reached(self.names[code]) for code in holders)
            )
            mask = np.array([site in sites for site in self._sites], dtype=bool)
            # Where it lies it need not be brought, also if its storage cannot be read from afar.
            mask[list(holders)] = True
            self._masks[holders] = mask
        return self._masks[holders]

    def readers(self, holders: tuple[int, ...]) -> NDArray[np.bool_]:
        """Find the storages whose pilots may read a file that these hold: where it lies, and from afar (E3).

        Whether a storage rests is asked when a pilot takes a job.
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

    def held_up(self, holders: tuple[int, ...], rests: Sequence[StorageRest]) -> NDArray[np.intp]:
        """Find what keeps a file from each storage: the number of a rest, from 1; 0 where none does (F4)."""
        found = np.zeros(len(self.names), dtype=np.intp)
        for place, name in enumerate(self.names):
            if place in holders:
                continue
            reaching = (
                self.names[code]
                for code in holders
                if self._sites[place] in self.sources.sites_reached(self.names[code])
            )
            numbers = [_holding(rests, source, name) for source in reaching]
            if numbers and all(numbers):
                found[place] = numbers[0]
        return found


def _holding(rests: Sequence[StorageRest], source: str, destination: str) -> int:
    concerned = (rest.source and rest.concerns(source, destination) for rest in rests)
    return next((number for number, concerns in enumerate(concerned, 1) if concerns), 0)
