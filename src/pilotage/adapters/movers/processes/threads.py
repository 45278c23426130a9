"""Blocking copies as deliveries that are started, polled and cancelled: one daemon thread each."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

from cachetools import FIFOCache

from pilotage.adapters.movers.processes.small_file_threads import SmallFileThreads
from pilotage.log_lines import bound
from pilotage.model.records.federation import Storage
from pilotage.model.records.work import InputFile
from pilotage.model.values.slot_parts import SMALL_FILE
from pilotage.ports.moving import (
    SCAN_LIMITS,
    Delivered,
    Delivery,
    DeliveryStatus,
    ScanLimits,
    Started,
    StorageError,
)

log = logging.getLogger(__name__)

MOST_AT_ONCE = 2000
"""Most deliveries of a mover under way, including those that hang. Further ones are refused."""

MOST_ENDED = 10_000
"""Most ended deliveries to remember, latest first."""

GRACE = 5.0
"""Seconds for deliveries to give up at closing. One that hangs is left behind."""


class Cancelled(Exception):
    """A mover gave a delivery up while its bytes were moving."""


@dataclass(slots=True)
class RunningCopy:
    """A running delivery. It is also its ``Progress`` callback.

    ``conclude`` ends it after its copy has returned None. Its argument returns the delivered file, or raises.
    """

    delivery: Delivery
    conclude: Callable[[Callable[[], Delivered | None]], None] = lambda _: None
    read: int = 0
    signs: int = 0
    cancelled: bool = False

    def __call__(self, read: int) -> None:
        """Record how many bytes were read. Raises Cancelled if the copy was cancelled."""
        self.read = read
        if self.cancelled:
            raise Cancelled("the delivery was cancelled")

    def sign(self) -> None:
        """Record a sign of life other than bytes."""
        self.signs += 1


Copy = Callable[[Delivery, RunningCopy], Delivered | None]
"""Delivers one file and reports progress. Returns None if the delivery is concluded later. Raises
StorageError."""


class CopyThreads:
    """Runs a blocking copy for each delivery, on its own thread that nothing waits for.

    Small files without a service are copied one after another, a bundle of them per thread (D8). A storage
    may hang for ever: that delays nothing else, not even the end of the process.
    """

    def __init__(self, copy: Copy, on_change: Callable[[], None], limit: int = MOST_AT_ONCE) -> None:
        self._copy = copy
        self._on_change = on_change
        self._limit = limit
        self._lock = threading.Lock()
        self._count = 0
        self._closed = False
        self._running: dict[str, RunningCopy] = {}
        self._ended: FIFOCache[str, DeliveryStatus] = FIFOCache(MOST_ENDED)
        self._small_files = SmallFileThreads()

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        """Begin each delivery."""
        return [self._start(delivery) for delivery in deliveries]

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        """Return the status of each delivery, even some time after its end, until many others have ended."""
        return {reference: self._status(reference) for reference in references}

    def cancel(self, references: Collection[str]) -> None:
        """Give up deliveries at their next bytes."""
        with self._lock:
            for reference in references:
                if reference in self._running:
                    self._running[reference].cancelled = True

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> list[InputFile]:  # noqa: ARG002
        """Raise, because this mover has no ability ``scan``."""
        raise StorageError(f"{storage.url} cannot be listed by this mover")

    def remove(self, storage: Storage, prefix: str) -> None:
        """Raise, because this mover has no ability ``remove``."""
        raise StorageError(f"{prefix!r} cannot be removed from {storage.url} by this mover")

    def close(self) -> None:
        """Give up every delivery, and wait a little for the ones that do not hang."""
        with self._lock:
            self._closed = True
            references = list(self._running)
        self.cancel(references)
        end = time.monotonic() + GRACE
        while self._running and time.monotonic() < end:
            time.sleep(0.02)

    def _start(self, delivery: Delivery) -> Started:
        with self._lock:
            if self._closed:
                return Started(error="the mover is closed")
            if len(self._running) >= self._limit:
                return Started(error=f"{self._limit} deliveries are under way: wait until some have ended")
            self._count += 1
            # Add a count: an abandoned delivery may still be running when the same attempt begins again.
            reference = f"{delivery.transfer}.{delivery.attempt}.{self._count}"
            running = self._running[reference] = RunningCopy(delivery)
        running.conclude = partial(self._conclude, reference, running)
        with bound(transfer=delivery.transfer):
            run = partial(copy_context().run, running.conclude, lambda: self._begun(running))
        if delivery.size <= SMALL_FILE and delivery.service is None:
            self._small_files.add(delivery.share, run, delivery.bundle)
        else:
            threading.Thread(target=run, name=f"mover-{delivery.transfer}", daemon=True).start()
        return Started(reference=reference)

    def _begun(self, running: RunningCopy) -> Delivered | None:
        running(running.read)  # it may have been cancelled while it waited
        return self._copy(running.delivery, running)

    def _conclude(self, reference: str, running: RunningCopy, copied: Callable[[], Delivered | None]) -> None:
        try:
            if (delivered := copied()) is None:
                return
            status = DeliveryStatus(
                state="delivered", bytes=delivered.size, checksum=delivered.checksum, way=delivered.way
            )
        except StorageError as error:
            status = DeliveryStatus(state="failed", bytes=running.read, error=str(error), fault=error.fault)
        except Cancelled as error:
            status = DeliveryStatus(state="failed", bytes=running.read, error=str(error))
        except Exception as error:
            number = running.delivery.transfer
            log.exception("transfer %d: unexpected fault", number, extra={"transfer": number})
            status = DeliveryStatus(
                state="failed", bytes=running.read, error=f"{type(error).__name__}: {error}"
            )
        with self._lock:
            del self._running[reference]
            self._ended[reference] = status
        self._on_change()

    def _status(self, reference: str) -> DeliveryStatus:
        with self._lock:
            if reference in self._running:
                running = self._running[reference]
                return DeliveryStatus(state="moving", bytes=running.read, signs=running.signs)
            return self._ended.get(reference, DeliveryStatus(state="unknown"))
