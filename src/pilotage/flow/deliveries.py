"""Deliveries under way in this process: threads that move bytes, and what has become of them."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage import movers
from pilotage.model.decision import Change, Touch
from pilotage.model.federation import StagingConstants
from pilotage.model.work import Transfer
from pilotage.staging import retries

log = logging.getLogger(__name__)

GRACE = 5.0
"""How long deliveries have to give up when they are stopped, in s; one that hangs is left behind."""


class Withdrawn(Exception):
    """The transfer was taken away while its bytes were under way."""


@dataclass(slots=True)
class _Delivery:
    transfer: Transfer
    order: movers.Delivery
    sources: tuple[str, ...]
    constants: StagingConstants
    progressed: float = field(default_factory=time.time)
    withdrawn: bool = False


class Deliveries:
    """Runs deliveries side by side. Their ends are collected by :meth:`ended`, a change for each."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._ended: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: dict[tuple[int, int], _Delivery] = {}

    def start(
        self,
        transfer: Transfer,
        order: movers.Delivery,
        sources: tuple[str, ...],
        constants: StagingConstants,
    ) -> None:
        """Begin a delivery; ``sources`` are the storages to try next should it fail."""
        delivery = _Delivery(transfer, order, sources, constants)
        with self._lock:
            self._running[transfer.id, transfer.attempt] = delivery
        # A thread of its own, which nothing waits for: a storage may hang for ever.
        name = f"mover-{transfer.id}"
        threading.Thread(target=self._run, args=(delivery,), name=name, daemon=True).start()

    def ended(self) -> tuple[Change, ...]:
        """What became of the deliveries that have ended since the last call."""
        return tuple(self._ended.get_nowait() for _ in range(self._ended.qsize()))

    def alive(self, now: float) -> Touch | None:
        """A heartbeat for those whose bytes moved lately; None where there are none."""
        with self._lock:
            moving = sorted(
                key
                for key, delivery in self._running.items()
                if now - delivery.progressed < delivery.constants.delivery_timeout
            )
        if not moving:
            return None
        ids, attempts = zip(*moving, strict=True)
        return Touch(kind="transfer", ids=ids, attempts=attempts, changes={"heartbeat": now})

    def withdraw_all_but(self, ids: set[int]) -> None:
        """Give up the deliveries whose transfers are not this process's any more."""
        with self._lock:
            for (id_, _), delivery in self._running.items():
                delivery.withdrawn = delivery.withdrawn or id_ not in ids

    def stop(self) -> None:
        """Give everything up, and wait a little for it."""
        self.withdraw_all_but(set())
        end = time.monotonic() + GRACE
        while self._running and time.monotonic() < end:
            time.sleep(0.02)

    def _run(self, delivery: _Delivery) -> None:
        def progress(_: int) -> None:
            delivery.progressed = time.time()
            if delivery.withdrawn:
                raise Withdrawn

        change: Change | None = None
        try:
            movers.deliver(delivery.order, progress)
            movers.cleanup(delivery.order)
            change = retries.after_delivery(delivery.transfer, time.time())
        except movers.StorageError as error:
            if not delivery.withdrawn:
                change = self._failed(delivery, str(error))
        except Exception as error:
            log.exception("transfer %d: unexpected fault", delivery.transfer.id)
            change = self._failed(delivery, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                del self._running[delivery.transfer.id, delivery.transfer.attempt]
        if change is not None:
            self._ended.put(change)
            self._on_end()

    def _failed(self, delivery: _Delivery, error: str) -> Change:
        return retries.after_failure(
            delivery.transfer, error, time.time(), delivery.constants, delivery.sources
        )
