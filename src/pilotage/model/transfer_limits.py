"""Limits of storages and links on transfers that are delivered at the same time, besides the slots (D4)."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from .counters import TRANSFERS_BY_LINK
from .decision import Claim
from .federation import Federation
from .states import TransferState
from .transfer_queues import DELIVERING, PREPARING, TransferQueue
from .work import Transfer

Place = tuple[str, ...]
"""A storage by name, or a link by its two sites."""

_COUNTED: Mapping[TransferQueue, tuple[int, tuple[TransferState, ...]]] = {
    PREPARING: (2, (TransferState.PREPARING, TransferState.PREPARED, TransferState.DELIVERING)),
    DELIVERING: (1, (TransferState.DELIVERING,)),
}
"""How many times its limit a place takes of a queue, and the states that count. As many as are delivered
stand prepared behind them, so that the place is never idle; what is finished touches no place any more."""


@dataclass(slots=True)
class Room:
    """Transfers of a queue that storages and links with limits still take, besides the slots of shares."""

    federation: Federation
    transfers: Iterable[Transfer]
    queue: TransferQueue = DELIVERING
    _sites: Mapping[str, str] = field(init=False)
    _left: Counter[Place] = field(init=False, default_factory=Counter)
    _limits: Mapping[Place, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._sites = {storage.name: storage.site for storage in self.federation.storages}
        times, states = _COUNTED.get(self.queue, (0, ()))
        if not times:
            return
        storages, links = self.federation.storages, self.federation.links
        self._limits = {(one.name,): times * one.transfer_slots for one in storages if one.transfer_slots} | {
            (one.source, one.destination): times * one.transfer_slots for one in links if one.transfer_slots
        }
        self._left.update(self._limits)
        if self._left:
            for transfer in self.transfers:
                if transfer.state in states:
                    self.take(transfer)

    def full(self, transfer: Transfer) -> str:
        """Name the storage or link that takes no such transfer now; empty where none is full."""
        blocking = next((place for place in self.bounded(transfer) if self._left[place] <= 0), ())
        return " to ".join(blocking)

    def take(self, transfer: Transfer) -> None:
        """Count one more transfer."""
        self._left.subtract(self.bounded(transfer))

    def full_storages(self) -> tuple[str, ...]:
        """Return the storages that take no transfer now."""
        return tuple(sorted(place[0] for place, left in self._left.items() if left <= 0 and len(place) == 1))

    def full_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the storages, source and destination, between which a link takes no transfer now."""
        links = {place for place, left in self._left.items() if left <= 0 and len(place) == 2}
        return tuple(pair for pair in self._pairs() if self._link(*pair) in links) if links else ()

    def bounded(self, transfer: Transfer) -> tuple[Place, ...]:
        """Return the storages and the link of a transfer that have a limit; an unknown storage has none."""
        if not self._limits:
            return ()
        ends = transfer.source, transfer.destination
        places: set[Place] = {(ends[0],), (ends[1],), self._link(*ends)}
        return tuple(sorted(places & self._limits.keys()))

    def claims(self, places: Collection[Place]) -> tuple[Claim, ...]:
        """Claim what storages and links take, by the counts of the store: exact whoever else decides."""
        times, states = _COUNTED.get(self.queue, (0, ()))
        return tuple(
            Claim(
                counter=TRANSFERS_BY_LINK,
                key=rows[0],
                others=rows[1:],
                states=states,
                limit=self._limits[place],
            )
            for place in places
            if (rows := self._rows(place)) and times
        )

    def _rows(self, place: Place) -> tuple[tuple[str | None, ...], ...]:
        """Return the rows of the counter that count at a place: what leaves a storage, what comes to it."""
        if len(place) == 1:
            return (place[0], None, None), (None, place[0], None)
        return tuple((*pair, None) for pair in self._pairs() if self._link(*pair) == place)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return product(sorted(self._sites), sorted(self._sites))

    def _link(self, source: str, destination: str) -> Place:
        return self._sites.get(source, ""), self._sites.get(destination, "")
