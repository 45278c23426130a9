"""Deliveries in worker processes: one that hangs, or dies, affects no other."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby, islice
from typing import cast

from cachetools import FIFOCache

from pilotage.adapters.movers.copies.ranged import LARGE
from pilotage.adapters.movers.processes.call_processes import CallProcesses
from pilotage.adapters.movers.processes.threads import GRACE, MOST_AT_ONCE, MOST_ENDED
from pilotage.adapters.movers.processes.worker import Statuses
from pilotage.adapters.movers.processes.worker_process import WorkerProcess
from pilotage.model.records.federation import Storage
from pilotage.model.records.work import InputFile
from pilotage.model.values.slot_parts import SMALL_FILE
from pilotage.ports.moving import (
    SCAN_LIMITS,
    Abilities,
    Delivered,
    Delivery,
    DeliveryStatus,
    Grant,
    Mover,
    Readable,
    Reader,
    ScanLimits,
    Space,
    SpaceTeller,
    Started,
)

log = logging.getLogger(__name__)

MOST_PROCESSES = min(8, max(2, os.cpu_count() or 2))
"""Most worker processes of a mover. Python does the work of most protocols, and uses one core per process."""

ENOUGH = 8
"""Deliveries of a process beyond which another one starts, if allowed. A large file counts as that many."""

IDLE = 30.0
"""Seconds without deliveries after which a process ends, to free its memory."""

SCAN_GRACE = 2.0
"""Seconds that a scan may exceed its limit, because a single call to a storage cannot be interrupted."""

SPACE_LIMIT = 30.0
"""Time limit in s for a storage to report its free space."""

REMOVAL_LIMIT = 280.0
"""Time limit in s for clearing a folder."""

LOOK = 1.0
"""Seconds between two checks for processes that hang or are idle."""


class WorkerProcesses:
    """A mover with deliveries in worker processes, and its other calls in separate processes.

    The deliveries of a process that died start once more, each alone in a process. So only the faulty
    delivery fails, and the others arrive.
    """

    def __init__(self, name: str, mover: Mover, on_change: Callable[[], None]) -> None:
        self._name, self._mover, self._on_change = name, mover, on_change
        self._lock = threading.RLock()
        self._calls = CallProcesses(name)
        self._count = 0
        self._closed = self._watched = False
        self._processes: list[WorkerProcess] = []
        self._suspects: deque[tuple[str, Delivery]] = deque()
        self._moving: dict[str, DeliveryStatus] = {}
        self._ended: FIFOCache[str, DeliveryStatus] = FIFOCache(MOST_ENDED)

    @property
    def abilities(self) -> Abilities:
        """The abilities of the mover."""
        return self._mover.abilities

    @property
    def pids(self) -> list[int]:
        """Return the ids of delivering processes."""
        with self._lock:
            return [process.pid for process in self._processes]

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        """Hand each delivery to the process with the fewest, or to a new one."""
        with self._lock:
            if self._closed:
                return [Started(error="the mover is closed") for _ in deliveries]
            room = max(0, MOST_AT_ONCE - len(self._moving))
            orders = [(self._reference(delivery), delivery) for delivery in deliveries[:room]]
            self._moving |= {reference: DeliveryStatus(state="moving") for reference, _ in orders}
            self._hand_out(orders)
            error = f"{MOST_AT_ONCE} deliveries are under way: wait until some have ended"
            refused = [Started(error=error)] * (len(deliveries) - len(orders))
            return [*(Started(reference=reference) for reference, _ in orders), *refused]

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        """Return the processes' last reports."""
        unknown = DeliveryStatus(state="unknown")
        with self._lock:
            return {
                reference: self._moving.get(reference) or self._ended.get(reference, unknown)
                for reference in references
            }

    def cancel(self, references: Collection[str]) -> None:
        """Give up deliveries. If one does not stop, its process is killed after its other deliveries have
        ended."""
        with self._lock:
            for process in self._processes:
                if moving := [reference for reference in references if reference in process.deliveries]:
                    process.cancel(moving)
            given_up = [reference for reference, _ in self._suspects if reference in references]
            self._suspects = deque(pair for pair in self._suspects if pair[0] not in given_up)
            self._end(
                {reference: DeliveryStatus(state="failed", error="cancelled") for reference in given_up}
            )

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> list[InputFile]:
        """See ``Mover``. Raises TimeoutError if the storage hangs."""
        files: list[InputFile] = self._calls.call(limits.seconds + SCAN_GRACE, "scan", storage, glob, limits)
        return files

    def remove(self, storage: Storage, prefix: str) -> None:
        """See ``Mover``. Raises TimeoutError if the storage hangs."""
        self._calls.call(REMOVAL_LIMIT, "remove", storage, prefix)

    def space(self, storage: Storage) -> Space | None:
        """See ``SpaceTeller``. Raises TimeoutError if the storage hangs."""
        if not isinstance(self._mover, SpaceTeller):
            return None
        answer: Space | None = self._calls.call(SPACE_LIMIT, "space", storage)
        return answer

    def open(self, storage: Storage, path: str) -> AbstractContextManager[Readable]:
        """See ``Reader``. Raises TimeoutError if the storage hangs."""
        return self._calls.open(storage, path)

    def store(self, storage: Storage, path: str, stream: Readable, size: int) -> Delivered:
        """See ``Reader``. Raises TimeoutError if the storage hangs."""
        return self._calls.store(storage, path, stream, size)

    def grant(self, storage: Storage, path: str, size: int | None = None) -> Grant | None:
        """See ``Reader``."""
        return cast(Reader, self._mover).grant(storage, path, size)

    def close(self) -> None:
        """End every process immediately. The next attempt removes their partial files."""
        with self._lock:
            self._closed = True
            self._suspects.clear()
            for process in self._processes:
                process.kill("was closed")
        self._calls.close()
        end = time.monotonic() + GRACE
        while (self.pids or self._calls.pids) and time.monotonic() < end:
            time.sleep(0.02)
        self._mover.close()

    def _reference(self, delivery: Delivery) -> str:
        self._count += 1
        return f"{delivery.transfer}.{delivery.attempt}.{self._count}"

    def _hand_out(self, orders: Sequence[tuple[str, Delivery]]) -> None:
        shares: dict[int, tuple[WorkerProcess, list[tuple[str, Delivery]]]] = {}
        for bundle in _bundles(orders):
            process = self._with_room(
                {id(worker): _load(order for _, order in share) for worker, share in shares.values()}
            )
            shares.setdefault(id(process), (process, []))[1].extend(bundle)
        for process, share in shares.values():
            process.start(share)

    def _with_room(self, more: Mapping[int, int]) -> WorkerProcess:
        """Return the process with the fewest deliveries, ``more`` included, or a new one if each has
        enough."""
        able = [process for process in self._processes if not (process.alone or process.retired)]
        loads = [_load(process.deliveries.values()) + more.get(id(process), 0) for process in able]
        if able and (min(loads) < ENOUGH or len(able) >= MOST_PROCESSES):
            return able[loads.index(min(loads))]
        return self._new(alone=False)

    def _new(self, *, alone: bool) -> WorkerProcess:
        process = WorkerProcess(self._name, self._take_news, self._gone, alone=alone)
        self._processes.append(process)
        if not self._watched:
            self._watched = True
            threading.Thread(target=self._watch, name=f"watch-{self._name}", daemon=True).start()
        return process

    def _take_news(self, process: WorkerProcess, news: Statuses) -> None:
        ended = {reference: status for reference, status in news.items() if status.state != "moving"}
        with self._lock:
            self._moving |= {name: status for name, status in news.items() if name in self._moving}
            for reference in ended:
                process.deliveries.pop(reference, None)
                process.cancelled.pop(reference, None)
            if process.deliveries:
                process.busy = time.monotonic()
            self._end(ended)
            self._try_suspects()
        if ended:
            self._on_change()

    def _gone(self, process: WorkerProcess) -> None:
        """Restart the deliveries of a dead process, each alone. One that was alone has failed."""
        with self._lock:
            self._processes.remove(process)
            orders = {
                reference: order
                for reference, order in process.deliveries.items()
                if reference not in process.cancelled
            }
            if orders and not self._closed:
                log.warning("%s: %s with %d deliveries", self._name, process.last_words(), len(orders))
            if len(orders) > 1 and not process.alone:
                self._suspects.extend(orders.items())
                orders = {}
            error = process.last_words()
            lost = [*orders, *process.cancelled]
            self._end({reference: DeliveryStatus(state="failed", error=error) for reference in lost})
            self._try_suspects()
        self._on_change()

    def _end(self, statuses: Statuses) -> None:
        for reference, status in statuses.items():
            self._moving.pop(reference, None)
            self._ended[reference] = status

    def _try_suspects(self) -> None:
        """Give each process for suspects its next one."""
        while self._suspects and not self._closed:
            candidates = [process for process in self._processes if process.alone and not process.retired]
            free = next((process for process in candidates if not process.deliveries), None)
            if free is None and len(candidates) >= MOST_PROCESSES:
                return
            (free or self._new(alone=True)).start([self._suspects.popleft()])

    def _watch(self) -> None:
        """End processes that hang or are idle, until there are none."""
        while True:
            time.sleep(LOOK)
            with self._lock:
                if not self._processes:
                    self._watched = False
                    return
                now = time.monotonic()
                for process in self._processes:
                    if reason := process.fault(now):
                        process.kill(reason)
                    elif not process.deliveries and now - process.busy > IDLE:
                        process.let_go()


def _load(orders: Iterable[Delivery]) -> int:
    """Return the load of deliveries. A large one keeps a processor busy."""
    return sum(ENOUGH if order.size >= LARGE else 1 for order in orders)


def _bundles(orders: Iterable[tuple[str, Delivery]]) -> Iterator[Sequence[tuple[str, Delivery]]]:
    """Keep the small files of one slot together (D8). Otherwise each process would open a lane for them."""

    def slot(order: tuple[str, Delivery]) -> tuple[str, int]:
        small = order[1].size <= SMALL_FILE
        return order[1].share, order[1].bundle if small else 1

    for (_, bundle), group in groupby(orders, slot):
        rest = iter(group)
        while part := list(islice(rest, bundle)):
            yield part
