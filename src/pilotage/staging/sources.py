"""From where a file is best brought to a storage."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pilotage.model.federation import Federation, Link, Storage

UNKNOWN_CLOSENESS = 7.7
BLOCKED = -1


@dataclass(frozen=True, slots=True)
class Sources:
    """The storages and links of a federation, for choosing sources."""

    federation: Federation
    _storages: dict[str, Storage] = field(init=False, default_factory=dict)
    _links: dict[tuple[str, str], Link] = field(init=False, default_factory=dict)
    _ranked: dict[tuple[frozenset[str], str], tuple[str, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._storages.update((storage.name, storage) for storage in self.federation.storages)
        self._links.update(((link.source, link.destination), link) for link in self.federation.links)

    def ranked(self, holders: Iterable[str], destination: str) -> tuple[str, ...]:
        """Storages that hold a file and from which it can be brought to ``destination``, best first.

        Disk before tape, the destination's own site before others, then by measured throughput, then by
        closeness: what nobody measured comes after what is known. Left out are storages that the
        federation does not have, that are blacklisted for this reading, or whose link is blocked (B5, B19).
        """
        key = (frozenset(holders), destination)
        if key not in self._ranked:
            able = [name for name in key[0] if self._is_able(name, destination)]
            self._ranked[key] = tuple(sorted(able, key=lambda name: self._rank(name, destination)))
        return self._ranked[key]

    def _is_able(self, name: str, destination: str) -> bool:
        storage, target = self._storages.get(name), self._storages.get(destination)
        if storage is None or target is None or name == destination:
            return False
        reading = "read_lan" if storage.site == target.site else "read_wan"
        link = self._links.get((storage.site, target.site))
        return reading not in storage.blacklisted and not (link and link.closeness == BLOCKED)

    def _rank(self, name: str, destination: str) -> tuple[bool, bool, float, float, str]:
        storage, target = self._storages[name], self._storages[destination]
        link = self._links.get((storage.site, target.site))
        windows = (link.throughput_1h, link.throughput_1d, link.throughput_1w) if link else ()
        throughput = next((value for value in windows if value is not None), 0.0)
        closeness = UNKNOWN_CLOSENESS if link is None or link.closeness is None else link.closeness
        return (storage.tape, storage.site != target.site, -throughput, closeness, name)
