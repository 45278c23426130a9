"""Virtual movers: a delivery takes as long as its bytes take over its link."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pilotage.model.federation import Federation, Storage
from pilotage.model.work import InputFile
from pilotage.ports.moving import (
    SCAN_LIMITS,
    Abilities,
    Delivery,
    DeliveryStatus,
    Reader,
    ScanLimits,
    Started,
)

from .behaviour import Behaviour
from .clock import VirtualClock

LATENCY = 2.0
"""Seconds that any delivery takes besides its bytes."""

UNMEASURED = 10.0
"""Throughput over links that nobody measured, in MB/s."""


@dataclass(slots=True)
class _Moving:
    ends: float
    fails: bool


class VirtualMovers:
    """One mover for every storage of a federation."""

    def __init__(
        self,
        federation: Federation,
        behaviour: Behaviour,
        clock: VirtualClock,
        dice: random.Random,
        on_news: Callable[[], None],
    ) -> None:
        self.abilities = Abilities(name="virtual", reads=frozenset(), writes=frozenset())
        self._behaviour = behaviour
        self._clock = clock
        self._dice = dice
        self._on_news = on_news
        self._sites = {storage.url: storage.site for storage in federation.storages}
        self._throughput = {
            (link.source, link.destination): link.throughput_1h or UNMEASURED for link in federation.links
        }
        self._moving: dict[str, _Moving] = {}

    def for_delivery(self, source: str, destination: str) -> "VirtualMovers":  # noqa: ARG002
        """The mover between two storages."""
        return self

    def for_storage(self, storage: Storage) -> "VirtualMovers":  # noqa: ARG002
        """The mover of a storage."""
        return self

    def for_reading(self, storage: Storage) -> Reader:
        """Virtual storages hold no bytes. Raises LookupError."""
        raise LookupError(f"storage {storage.name} is virtual and holds no bytes")

    def close(self) -> None:
        """Nothing is left behind."""

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        """Begin deliveries; each wakes whoever waits for news when it ends."""
        return [self._started(delivery) for delivery in deliveries]

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        """The states of deliveries. An end is told once."""
        return {reference: self._status(reference) for reference in references}

    def cancel(self, references: Collection[str]) -> None:
        """Forget deliveries."""
        for reference in references:
            self._moving.pop(reference, None)

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> list[InputFile]:  # noqa: ARG002
        """Virtual storages list no files: tasks name their inputs."""
        return []

    def remove(self, storage: Storage, prefix: str) -> None:
        """Virtual storages hold no bytes."""

    def _started(self, delivery: Delivery) -> Started:
        reference = f"{delivery.transfer}.{delivery.attempt}"
        link = (self._sites[delivery.source.url], self._sites[delivery.destination.url])
        duration = LATENCY + delivery.size / 1e6 / self._throughput.get(link, UNMEASURED)
        fails = self._dice.random() < self._behaviour.transfer_fails
        self._moving[reference] = _Moving(self._clock() + duration, fails)
        self._clock.after(duration, self._on_news)
        return Started(reference=reference)

    def _status(self, reference: str) -> DeliveryStatus:
        moving = self._moving.get(reference)
        if moving is None:
            return DeliveryStatus(state="unknown")
        if self._clock() < moving.ends:
            return DeliveryStatus(state="moving", bytes=int(self._clock()))
        del self._moving[reference]
        if moving.fails:
            return DeliveryStatus(state="failed", error="the virtual link broke")
        return DeliveryStatus(state="delivered")
