"""To which storages a file can be brought from those that hold it, as masks over storages (B19)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pilotage.model.federation import Storage
from pilotage.model.sources import Sources


class Reach:
    """The rule of :class:`Sources` by code: storages in the order of their names, shape (S,)."""

    def __init__(self, sources: Sources, storages: Sequence[Storage]) -> None:
        self.sources = sources
        self.names = tuple(storage.name for storage in storages)
        self._sites = [storage.site for storage in storages]
        self._masks: dict[tuple[int, ...], NDArray[np.bool_]] = {}

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
