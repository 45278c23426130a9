"""Deliveries of this process: movers start them, and the next pass reads the results."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from operator import attrgetter

from pilotage.flow.outside.answers import OutsideAnswers
from pilotage.flow.outside.workers import WorkersPort
from pilotage.model.circuit_breakers.storages import End, FailedDelivery, storage_breakers
from pilotage.model.documents.decision import Committed, Decision, Forget, Move
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.observations import DeliverySighting
from pilotage.model.records.unable_ways import UnableWay, way_of
from pilotage.model.records.work import InputFile, Transfer
from pilotage.model.values.entry_point_groups import TRANSFER_SERVICES
from pilotage.ports import adapters
from pilotage.ports.moving import (
    Delivered,
    Delivery,
    DeliveryStatus,
    Grant,
    Mover,
    Movers,
    Readable,
    ScanLimits,
    Started,
)

log = logging.getLogger(__name__)

SCAN_GRACE = 5.0
"""Seconds that a scan may exceed its limit, because a single call to a storage cannot be interrupted."""

TransferAttempt = tuple[int, int]
"""A transfer and its attempt."""


@dataclass(slots=True)
class _Moving:
    """A delivery that a mover has accepted. ``last_status`` is its last report."""

    mover: Mover
    reference: str = ""
    last_status: DeliveryStatus | None = None


class Deliveries(OutsideAnswers[DeliverySighting]):
    """Deliveries of one process. Nothing here blocks: workers call the movers.

    ``fenced`` workers start and cancel deliveries, and delete.
    """

    def __init__(
        self,
        movers: Movers,
        workers: WorkersPort,
        on_news: Callable[[], None],
        fenced: WorkersPort | None = None,
    ) -> None:
        super().__init__(attrgetter("transfer", "attempt"), on_news)
        self._movers = movers
        self._workers, self._fenced = workers, fenced or workers
        self._moving: dict[TransferAttempt, _Moving] = {}
        self._polling: set[int] = set()
        self._unable: tuple[Federation, tuple[UnableWay, ...]] | None = None
        self._undeletable: tuple[Federation, tuple[UnableWay, ...]] | None = None
        self._collecting = 0

    def unable(self, federation: Federation) -> tuple[UnableWay, ...]:
        """Return the pairs of kinds of storages that this process cannot move files between, and why."""
        cached = self._unable
        if cached is None or cached[0] is not federation:
            cached = self._unable = federation, tuple(self._lacking(federation.storages))
        return cached[1]

    def unable_to_delete(self, federation: Federation) -> tuple[UnableWay, ...]:
        """Return the kinds of storages in a federation where this process cannot delete files, and why.

        Only the URL's scheme counts. A transfer service deletes nothing.
        """
        cached = self._undeletable
        if cached is None or cached[0] is not federation:
            plain = [replace(storage, transfer_service=None) for storage in federation.storages]
            unable_ways = tuple(kind for kind in self._lacking(plain) if kind.source == kind.destination)
            cached = self._undeletable = federation, unable_ways
        return cached[1]

    def _lacking(self, storages: Sequence[Storage]) -> Iterator[UnableWay]:
        kinds = {way_of(storage, storage)[1:]: storage for storage in storages}.values()
        pairs = {way_of(*pair): pair for pair in product(kinds, kinds)}
        for (source_kind, destination_kind, service), (source, destination) in pairs.items():
            try:
                self._movers.for_delivery(source.url, destination.url)
                if service:
                    adapters.factory(TRANSFER_SERVICES, service)
            except LookupError as error:  # an AdapterError, too
                yield UnableWay(
                    source=source_kind, destination=destination_kind, service=service, reason=str(error)
                )

    def start(self, orders: Sequence[Delivery]) -> None:
        """Begin deliveries, together for each mover."""
        by_mover: dict[int, tuple[Mover, list[Delivery]]] = {}
        for order in orders:
            try:
                mover = self._movers.for_delivery(order.source.url, order.destination.url)
            except LookupError as error:
                self._tell([_failed(order, str(error))])
                continue
            by_mover.setdefault(id(mover), (mover, []))[1].append(order)
            with self._lock:
                self._moving[order.transfer, order.attempt] = _Moving(mover)
        for mover, batch in by_mover.values():
            self._start(mover, batch)

    def refuse(self, transfer: Transfer, error: str) -> None:
        """Report a transfer without a possible order."""
        self._tell(
            [DeliverySighting(transfer=transfer.id, attempt=transfer.attempt, state="failed", error=error)]
        )

    def news(self) -> tuple[DeliverySighting, ...]:
        """Return news of deliveries by transfer: ends, and moved bytes. Ask the movers for more."""
        # Immediate answers are part of the result, and need no other pass.
        self._collecting += 1
        try:
            for mover in {id(moving.mover): moving.mover for moving in self._copied().values()}.values():
                self._poll(mover)
        finally:
            self._collecting -= 1
        return super().news()

    @property
    def in_hand(self) -> int:
        """Return how many deliveries of this process have not ended, or have ends that are not recorded."""
        with self._lock:
            ended = {key for key, sighting in self._news.items() if sighting.state != "moving"}
            return len(self._moving.keys() | ended)

    def moved(self) -> dict[int, int]:
        """Return the bytes that each delivery of this process has moved by its last report. Ask for more."""
        copied = self._copied()
        for mover in {id(moving.mover): moving.mover for moving in copied.values()}.values():
            self._poll(mover)
        return {
            key[0]: moving.last_status.bytes if moving.last_status else 0 for key, moving in copied.items()
        }

    def withdraw_all_but(self, transfers: Collection[Transfer]) -> None:
        """Give up deliveries unless these transfers, with their attempts, still need them."""
        live_attempts = {(transfer.id, transfer.attempt) for transfer in transfers}
        for key, moving in self._copied().items():
            if key not in live_attempts and moving.reference:
                with self._lock:
                    self._moving.pop(key, None)
                self._fenced.call(_mover_label(moving.mover), _cancel(moving.mover, [moving.reference]))

    def scan(self, storage: Storage, glob: str, seconds: float, *, any_name: bool = False) -> list[InputFile]:
        """Return all matching files of a storage. Raises StorageError, LookupError or OSError.

        Files with names that no input may have, and links out of the storage, are refused, so that no input
        is missing silently. With ``any_name`` they are left out and reported.

        A storage that hangs delays only its caller, by ``SCAN_GRACE`` s more.
        """
        mover = self._movers.for_storage(storage)
        limits = ScanLimits(seconds=seconds, any_name=any_name, refuse_links=not any_name)
        scan = partial(mover.scan, storage, glob, limits)
        return self._workers.call(storage.name, scan, seconds + SCAN_GRACE).result()

    def obstacle_to_write(self, storage: Storage) -> str:
        """Return why this process cannot write a storage's files; empty if it can."""
        try:
            self._movers.for_delivery(storage.url, storage.url)
            self._movers.for_reading(storage)
        except LookupError as error:
            return str(error)
        return ""

    def open(self, storage: Storage, path: str) -> AbstractContextManager[Readable]:
        """Open a file to read it from its beginning. Blocks. Raises StorageError or LookupError."""
        return self._movers.for_reading(storage).open(storage, path)

    def store(self, storage: Storage, path: str, stream: Readable, size: int) -> Delivered:
        """Write a file of ``size`` bytes. Blocks. Raises StorageError or LookupError."""
        return self._movers.for_reading(storage).store(storage, path, stream, size)

    def grant(self, storage: Storage, path: str, size: int | None) -> Grant | None:
        """Return an address to read a file, or to write it. Blocks. Raises StorageError or LookupError."""
        return self._movers.for_reading(storage).grant(storage, path, size)

    def remove(self, storage: Storage, prefix: str) -> "Future[None]":
        """Delete a folder of a storage's scratch area, a copy or an output. Log a failure."""

        def done(future: "Future[None]") -> None:
            if (error := future.exception()) is not None:
                context = {"storage": storage.name}
                log.warning("storage %s: %s is left behind: %s", storage.name, prefix, error, extra=context)

        def remove() -> None:
            self._movers.for_storage(storage).remove(storage, prefix)

        removed = self._fenced.call(storage.name, remove)
        removed.add_done_callback(done)
        return removed

    def stop(self) -> None:
        """Give up everything. The next process continues it."""
        self._movers.close()

    def _copied(self) -> dict[TransferAttempt, _Moving]:
        with self._lock:
            return dict(self._moving)

    def _tell(self, news: Sequence[DeliverySighting]) -> None:
        with self._lock:
            for sighting in news:
                key = (sighting.transfer, sighting.attempt)
                self._news[key] = sighting
                if sighting.state != "moving":
                    self._moving.pop(key, None)
        # The collector reads after this was written: so check here, not before.
        if not self._collecting and any(sighting.state != "moving" for sighting in news):
            self._on_news()

    def _start(self, mover: Mover, orders: Sequence[Delivery]) -> None:
        def done(future: "Future[Sequence[Started]]") -> None:
            error = future.exception()
            if error is not None:
                self._tell([_failed(order, f"{error!r}") for order in orders])
                return
            failed: list[DeliverySighting] = []
            with self._lock:
                for order, answer in zip(orders, future.result(), strict=True):
                    moving = self._moving.get((order.transfer, order.attempt))
                    if answer.error:
                        failed.append(_failed(order, answer.error))
                    elif moving is not None:
                        moving.reference = answer.reference
            self._tell(failed)
            # A delivery that ended before its reference was known is reported now.
            self._poll(mover)

        self._fenced.call(_mover_label(mover), lambda: mover.start(orders)).add_done_callback(done)

    def _poll(self, mover: Mover) -> None:
        """Ask a mover about all its deliveries, unless the last question is not answered yet."""
        keys = {
            moving.reference: key
            for key, moving in self._copied().items()
            if moving.mover is mover and moving.reference
        }
        with self._lock:
            if id(mover) in self._polling or not keys:
                return
            self._polling.add(id(mover))

        def done(future: "Future[Mapping[str, DeliveryStatus]]") -> None:
            with self._lock:
                self._polling.discard(id(mover))
            if (error := future.exception()) is not None:
                log.warning("%s: its deliveries cannot be seen: %r", _mover_label(mover), error)
                return
            statuses = [(keys[name], status) for name, status in future.result().items() if name in keys]
            self._tell([news for key, status in statuses for news in self._changes_in(key, status)])

        self._workers.call(_mover_label(mover), lambda: mover.poll(keys)).add_done_callback(done)

    def _changes_in(self, key: TransferAttempt, status: DeliveryStatus) -> list[DeliverySighting]:
        """Return the news in a status: an end, newly moved bytes, or another sign of life."""
        with self._lock:
            moving = self._moving.get(key)
            if moving is None or status.state == "unknown":
                return []
            if status.state == "moving":
                if status == moving.last_status:
                    return []
                moving.last_status = status
        return [
            DeliverySighting(
                transfer=key[0],
                attempt=key[1],
                state=status.state,
                error=status.error,
                fault=status.fault,
                way=f"{status.way} ({_mover_label(moving.mover)})" if status.way else "",
            )
        ]


def _failed(order: Delivery, error: str) -> DeliverySighting:
    return DeliverySighting(transfer=order.transfer, attempt=order.attempt, state="failed", error=error)


def _mover_label(mover: Mover) -> str:
    return f"mover {mover.abilities.name}"


def _cancel(mover: Mover, references: Sequence[str]) -> Callable[[], None]:
    return lambda: mover.cancel(references)


def log_breakers(world: World, decision: Decision, committed: Committed) -> None:
    """Log the breakers that a commit opened, and the ones that a delivery closed."""
    new: list[FailedDelivery] = []
    cleared: set[End] = set()
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move):
            records = (record for id_ in ids for record in change.creates.get(id_, ()))
            new += [record for record in records if isinstance(record, FailedDelivery)]
        elif isinstance(change, Forget):
            cleared.update(change.failed_at)
    if not (new or cleared):
        return
    before = world.storage_breakers
    for breaker in before:
        if breaker.place in cleared:
            log.warning("%s: circuit breaker closed, something was delivered", breaker.what)
    if new:
        failed = (*world.failed_deliveries, *new)
        for breaker in storage_breakers(failed, world.federation.staging, world.time):
            if breaker not in before:
                log.warning("%s", breaker.sentence)
