"""Limits of storages, links and circuit breakers (F4) on active transfers, besides the slots (D4)."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.circuit_breakers.storages import End
from pilotage.model.records.counters import TRANSFERS_BY_LINK, Claim
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import TransferState
from pilotage.model.records.transfer_queues import DELIVERING, PREPARING, TransferQueue
from pilotage.model.records.work import Transfer

Place = tuple[str, ...]
"""A storage by name, or a link by its two sites, or a circuit breaker: its kind, source and destination."""

_COUNTED: Mapping[TransferQueue, tuple[int, tuple[TransferState, ...]]] = {
    PREPARING: (2, (TransferState.PREPARING, TransferState.PREPARED, TransferState.DELIVERING)),
    DELIVERING: (1, (TransferState.DELIVERING,)),
}
"""How many times its limit a place may have in a queue, and the states that count. As many transfers wait
prepared as are being delivered, so that the place is never idle. Transfers being finished use no place."""


@dataclass(slots=True)
class Room:
    """Transfers of a queue that storages and links with limits can still take, besides the slots of shares.

    Where a circuit breaker is open at ``time``, in s since 1970, none goes; half-open, it takes one (F4).
    ``sources`` are the current sources of transfers, by number, if they differ from the recorded ones.
    """

    federation: Federation
    transfers: Iterable[Transfer]
    queue: TransferQueue = DELIVERING
    breakers: Sequence[CircuitBreaker] = ()
    time: float = 0.0
    sources: Mapping[int, str] = field(default_factory=dict)
    _sites: Mapping[str, str] = field(init=False)
    _free: Counter[Place] = field(init=False, default_factory=Counter)
    _limits: Mapping[Place, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._sites = {storage.name: storage.site for storage in self.federation.storages}
        times, states = _COUNTED.get(self.queue, (0, ()))
        if not times:
            return
        storages, links = self.federation.storages, self.federation.links
        self._limits = {
            (storage.name,): times * storage.transfer_slots for storage in storages if storage.transfer_slots
        } | {
            (link.source, link.destination): times * link.transfer_slots
            for link in links
            if link.transfer_slots
        }
        self._limits |= {
            breaker.key: int(breaker.state(self.time) == "half-open") for breaker in self.breakers
        }
        self._free.update(self._limits)
        if self._free:
            for transfer in self.transfers:
                if transfer.state in states:
                    self.take(transfer)

    def full(self, transfer: Transfer) -> str:
        """Return the storage or link that is full for such a transfer; empty if none is."""
        blocking = next((place for place in self.bounded(transfer) if self._free[place] <= 0), ())
        return " to ".join(blocking[1:] if _is_breaker(blocking) else blocking)

    def breaker(self, transfer: Transfer) -> CircuitBreaker | None:
        """Return the circuit breaker that holds a transfer up (F4)."""
        full = {place for place in self.bounded(transfer) if self._free[place] <= 0}
        return next((candidate for candidate in self.breakers if candidate.key in full), None)

    def limits(self, transfer: Transfer) -> dict[Place, int]:
        """Return the limits of the storages and the link that a transfer uses."""
        return {place: self._limits[place] for place in self.bounded(transfer) if not _is_breaker(place)}

    def touches(self, place: Place, source: str, destination: str) -> bool:
        """Return whether a transfer between two storages uses a storage or link."""
        return place in ((source,), (destination,), self._link(source, destination))

    def take(self, transfer: Transfer) -> None:
        """Count one more transfer."""
        self._free.subtract(self.bounded(transfer))

    def full_storages(self) -> tuple[str, ...]:
        """Return the full storages."""
        return tuple(sorted(place[0] for place, free in self._free.items() if free <= 0 and len(place) == 1))

    def full_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of storages, source and destination, with a full link."""
        links = {place for place, free in self._free.items() if free <= 0 and len(place) == 2}
        return tuple(pair for pair in self._pairs() if self._link(*pair) in links) if links else ()

    def full_ends(self) -> tuple[End, ...]:
        """Return the ends with circuit breakers that take no transfer now (F4)."""
        return tuple(breaker.place for breaker in self.breakers if self._free[breaker.key] <= 0)

    def bounded(self, transfer: Transfer) -> tuple[Place, ...]:
        """Return the places that limit a transfer: its known storages, its link, and circuit breakers."""
        if not self._limits:
            return ()
        ends = transfer.source, transfer.destination
        places: set[Place] = {(ends[0],), (ends[1],), self._link(*ends)}
        source = self.sources.get(transfer.id, transfer.source)
        breakers = {
            breaker.key for breaker in self.breakers if breaker.concerns(source, transfer.destination)
        }
        return tuple(sorted(places & self._limits.keys() | breakers))

    def claims(self, places: Collection[Place]) -> tuple[Claim, ...]:
        """Return claims on storages and links. They count in the store, so other servers' decisions count."""
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
        """Return the rows of the counter that count at a place: transfers from a storage and to it."""
        if _is_breaker(place):
            return ((place[1] or None, place[2] or None, None),)
        if len(place) == 1:
            return (place[0], None, None), (None, place[0], None)
        return tuple((*pair, None) for pair in self._pairs() if self._link(*pair) == place)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return product(sorted(self._sites), sorted(self._sites))

    def _link(self, source: str, destination: str) -> Place:
        return self._sites.get(source, ""), self._sites.get(destination, "")


def _is_breaker(place: Place) -> bool:
    return len(place) == 3
