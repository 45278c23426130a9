"""Limits of storages and links on transfers that are delivered at the same time, besides the slots (D4)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .federation import Federation
from .states import TransferState
from .work import Transfer

Place = tuple[str, ...]
"""A storage by name, or a link by its two sites."""


@dataclass(slots=True)
class Room:
    """Transfers that storages and links which bound them still take, besides all slots of shares."""

    federation: Federation
    transfers: Iterable[Transfer]
    _sites: Mapping[str, str] = field(init=False)
    _left: Counter[Place] = field(init=False)

    def __post_init__(self) -> None:
        self._sites = {storage.name: storage.site for storage in self.federation.storages}
        self._left = Counter(
            {(one.name,): one.transfer_slots for one in self.federation.storages if one.transfer_slots}
            | {
                (one.source, one.destination): one.transfer_slots
                for one in self.federation.links
                if one.transfer_slots
            }
        )
        if self._left:
            for transfer in self.transfers:
                if transfer.state is TransferState.DELIVERING:
                    self.take(transfer)

    def full(self, transfer: Transfer) -> str:
        """Name the storage or link that takes no such transfer now; empty where none is full."""
        blocking = next((place for place in self._bounded(transfer) if self._left[place] <= 0), ())
        return " to ".join(blocking)

    def take(self, transfer: Transfer) -> None:
        """Count one more transfer."""
        self._left.subtract(self._bounded(transfer))

    def full_storages(self) -> tuple[str, ...]:
        """Return the storages that take no transfer now."""
        return tuple(sorted(place[0] for place, left in self._left.items() if left <= 0 and len(place) == 1))

    def full_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the storages, source and destination, between which a link takes no transfer now."""
        links = {place for place, left in self._left.items() if left <= 0 and len(place) == 2}
        return tuple(
            (source, destination)
            for source, here in sorted(self._sites.items())
            for destination, there in sorted(self._sites.items())
            if (here, there) in links
        )

    def _bounded(self, transfer: Transfer) -> list[Place]:
        """Return the storages and the link of a transfer that have a limit; an unknown storage has none."""
        if not self._left:
            return []
        ends = transfer.source, transfer.destination
        link = tuple(self._sites.get(end, "") for end in ends)
        return [place for place in {(ends[0],), (ends[1],), link} if place in self._left]
