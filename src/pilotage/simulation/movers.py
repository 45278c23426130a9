"""Virtual movers: a delivery lasts as long as its bytes need on a shared link."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.observations import Fault
from pilotage.model.records.work import InputFile
from pilotage.model.values.scopes import name_of
from pilotage.ports.moving import (
    SCAN_LIMITS,
    Abilities,
    Delivery,
    DeliveryStatus,
    Reader,
    ScanLimits,
    Started,
)
from pilotage.simulation.clock import VirtualClock
from pilotage.simulation.journal import Journal
from pilotage.simulation.links import Ends, FairLinks
from pilotage.simulation.scenario import LinkBehaviour, Scenario

LOCAL = 1000.0
"""MB/s between storages of one site."""

REFUSED_AFTER = 5.0
"""s after which a delivery fails at a storage that does not answer."""


def links_of(federation: Federation, behaviour: LinkBehaviour, clock: VirtualClock) -> FairLinks:
    """Return the links of a federation, shared by deliveries and reading jobs."""
    rates = {(link.source, link.destination): link.throughput_1h for link in federation.links}

    def throughput(ends: Ends) -> float:
        if ends[0] == ends[1]:
            return LOCAL
        return (rates.get(ends) or behaviour.throughput) * behaviour.factor

    return FairLinks(clock, throughput)


@dataclass(slots=True)
class _VirtualDelivery:
    """A delivery. If a storage will refuse it, nothing flows."""

    delivery: Delivery
    flow: int | None = None
    arrived: bool = False
    fault: Fault = ""


class VirtualMovers:
    """One mover for every storage of a federation."""

    def __init__(
        self,
        federation: Federation,
        scenario: Scenario,
        links: FairLinks,
        clock: VirtualClock,
        journal: Journal,
        seed: int,
        on_news: Callable[[], None],
    ) -> None:
        self.abilities = Abilities(name="virtual", reads=frozenset(), writes=frozenset())
        self._behaviour = scenario.links
        self._clock = clock
        self._journal = journal
        self._seed = seed
        self._on_news = on_news
        self._sites = {storage.url: storage.site for storage in federation.storages}
        self._links = links
        self._moving: dict[str, _VirtualDelivery] = {}
        self._out: Counter[str] = Counter()
        urls = {storage.name: storage.url for storage in federation.storages}
        for name, storage in scenario.storages.items():
            for spell in storage.outages:
                clock.after(spell.begins, partial(self._break, urls[name]))
                clock.after(spell.ends, partial(self._mend, urls[name]))

    def for_delivery(self, source: str, destination: str) -> "VirtualMovers":  # noqa: ARG002
        """Return the mover between two storages."""
        return self

    def for_storage(self, storage: Storage) -> "VirtualMovers":  # noqa: ARG002
        """Return the mover of a storage."""
        return self

    def for_reading(self, storage: Storage) -> Reader:
        """Virtual storages hold no bytes. Raises LookupError."""
        raise LookupError(f"storage {storage.name} is virtual and holds no bytes")

    def close(self) -> None:
        """Do nothing: there is nothing to clean up."""

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        """Begin deliveries. When one ends, it wakes the steps that wait for it."""
        return [self._started(delivery) for delivery in deliveries]

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        """Return the states of deliveries. An end is returned once."""
        return {reference: self._status(reference) for reference in references}

    def cancel(self, references: Collection[str]) -> None:
        """Stop and forget deliveries."""
        for reference in references:
            if moving := self._moving.pop(reference, None):
                self._stop(moving)

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> list[InputFile]:  # noqa: ARG002
        """Virtual storages list no files: tasks name their inputs."""
        return []

    def remove(self, storage: Storage, prefix: str) -> None:
        """Virtual storages hold no bytes."""

    def _started(self, delivery: Delivery) -> Started:
        reference = f"{delivery.transfer}.{delivery.attempt}"
        moving = self._moving[reference] = _VirtualDelivery(delivery)
        if fault := self._fault(delivery):
            self._clock.after(REFUSED_AFTER, lambda: self._fail(reference, fault))
        else:
            ends: Ends = self._sites[delivery.source.url], self._sites[delivery.destination.url]
            moving.flow = self._links.begin(ends, delivery.size / 1e6, lambda: self._arrived(reference))
        return Started(reference=reference)

    def _break(self, url: str) -> None:
        """Begin an outage of a storage. It interrupts transfers from and to it."""
        self._out[url] += 1
        for reference, moving in list(self._moving.items()):
            if url in (moving.delivery.source.url, moving.delivery.destination.url):
                self._fail(reference, self._fault(moving.delivery))

    def _mend(self, url: str) -> None:
        """End an outage of a storage. Another may still last."""
        self._out[url] -= 1

    def _fault(self, delivery: Delivery) -> Fault:
        """Return who is at fault if a delivery fails now."""
        if self._out[delivery.source.url]:
            return "source"
        return "destination" if self._out[delivery.destination.url] else ""

    def _fail(self, reference: str, fault: Fault) -> None:
        moving = self._moving.get(reference)
        if moving is not None and not moving.arrived:
            self._stop(moving)
            moving.arrived, moving.fault = True, fault
            self._on_news()

    def _stop(self, moving: _VirtualDelivery) -> None:
        if moving.flow is not None:
            self._links.cancel(moving.flow)

    def _arrived(self, reference: str) -> None:
        self._moving[reference].arrived = True
        self._on_news()

    def _status(self, reference: str) -> DeliveryStatus:
        moving = self._moving.get(reference)
        if moving is None:
            return DeliveryStatus(state="unknown")
        if not moving.arrived:
            # A virtual delivery always makes progress: Pilotage gives up only stalled transfers.
            return DeliveryStatus(state="moving", bytes=int(self._clock()))
        del self._moving[reference]
        if moving.fault:
            return DeliveryStatus(state="failed", error="the virtual storage is out", fault=moving.fault)
        if self._breaks(reference):
            return DeliveryStatus(state="failed", error="the virtual link broke", fault="either")
        delivery = moving.delivery
        if delivery.scratch:
            self._journal.delivered += delivery.size
        else:
            self._journal.note_arrival(name_of(delivery.file), delivery.destination.url, delivery.size)
        return DeliveryStatus(state="delivered")

    def _breaks(self, reference: str) -> bool:
        """Return whether the link fails under a delivery.

        The answer depends on the delivery alone, not on the time.
        """
        part = self._behaviour.transfer_fails
        return part > 0 and random.Random(f"{reference} of {self._seed}").random() < part
