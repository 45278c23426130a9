"""Virtual movers: a delivery takes as long as its bytes take over a link that it shares."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pilotage.model.federation import Federation, Storage
from pilotage.model.scopes import name_of
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

from .clock import VirtualClock
from .journal import Journal
from .links import Ends, FairLinks
from .scenario import LinkBehaviour

LOCAL = 1000.0
"""MB/s between storages of one site."""


def links_of(federation: Federation, behaviour: LinkBehaviour, clock: VirtualClock) -> FairLinks:
    """The links of a federation, which deliveries and reading jobs share."""
    known = {(link.source, link.destination): link.throughput_1h for link in federation.links}

    def throughput(ends: Ends) -> float:
        if ends[0] == ends[1]:
            return LOCAL
        return (known.get(ends) or behaviour.throughput) * behaviour.factor

    return FairLinks(clock, throughput)


@dataclass(slots=True)
class _VirtualDelivery:
    flow: int
    delivery: Delivery
    arrived: bool = False


class VirtualMovers:
    """One mover for every storage of a federation."""

    def __init__(
        self,
        federation: Federation,
        behaviour: LinkBehaviour,
        links: FairLinks,
        clock: VirtualClock,
        journal: Journal,
        dice: random.Random,
        on_news: Callable[[], None],
    ) -> None:
        self.abilities = Abilities(name="virtual", reads=frozenset(), writes=frozenset())
        self._behaviour = behaviour
        self._clock = clock
        self._journal = journal
        self._dice = dice
        self._on_news = on_news
        self._sites = {storage.url: storage.site for storage in federation.storages}
        self._links = links
        self._moving: dict[str, _VirtualDelivery] = {}

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
        """Do nothing: nothing is left behind."""

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        """Begin deliveries; each wakes whoever waits for news when it ends."""
        return [self._started(delivery) for delivery in deliveries]

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        """The states of deliveries. An end is told once."""
        return {reference: self._status(reference) for reference in references}

    def cancel(self, references: Collection[str]) -> None:
        """Stop and forget deliveries."""
        for reference in references:
            if moving := self._moving.pop(reference, None):
                self._links.cancel(moving.flow)

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> list[InputFile]:  # noqa: ARG002
        """Virtual storages list no files: tasks name their inputs."""
        return []

    def remove(self, storage: Storage, prefix: str) -> None:
        """Virtual storages hold no bytes."""

    def _started(self, delivery: Delivery) -> Started:
        reference = f"{delivery.transfer}.{delivery.attempt}"
        ends: Ends = self._sites[delivery.source.url], self._sites[delivery.destination.url]
        flow = self._links.begin(ends, delivery.size / 1e6, lambda: self._arrived(reference))
        self._moving[reference] = _VirtualDelivery(flow, delivery)
        return Started(reference=reference)

    def _arrived(self, reference: str) -> None:
        self._moving[reference].arrived = True
        self._on_news()

    def _status(self, reference: str) -> DeliveryStatus:
        moving = self._moving.get(reference)
        if moving is None:
            return DeliveryStatus(state="unknown")
        if not moving.arrived:
            # A virtual delivery always has headway: only what stands still is given up.
            return DeliveryStatus(state="moving", bytes=int(self._clock()))
        del self._moving[reference]
        if self._dice.random() < self._behaviour.transfer_fails:
            return DeliveryStatus(state="failed", error="the virtual link broke", fault="either")
        delivery = moving.delivery
        if delivery.scratch:
            self._journal.delivered += delivery.size
        else:
            self._journal.brought(name_of(delivery.file), delivery.destination.url, delivery.size)
        return DeliveryStatus(state="delivered")
