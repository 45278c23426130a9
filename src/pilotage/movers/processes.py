"""Deliveries in worker processes: one that hangs, or dies, takes no other with it."""

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

from .call_processes import CallProcesses
from .ranged import LARGE
from .threads import GRACE, MOST_ENDED
from .worker import Statuses
from .worker_process import WorkerProcess

log = logging.getLogger(__name__)

MOST_PROCESSES = min(8, max(2, os.cpu_count() or 2))
"""Worker processes of a mover: most protocols are worked off by Python, which uses one core in each."""

ENOUGH = 8
"""Deliveries of a process, from which on another is started, if there may be one: a large file is as many."""

MOST_DELIVERIES = 2000
"""Deliveries under way, those that hang included; further ones are refused."""

IDLE = 30.0
"""Seconds without deliveries after which a process is ended: its memory is the machine's again."""

SCAN_GRACE = 2.0
"""Seconds that a scan may take beyond its limit: a single call to a storage cannot be interrupted."""

SPACE_LIMIT = 30.0
"""Seconds that a storage may take to tell its free space."""

REMOVAL_LIMIT = 280.0
"""Seconds that clearing a folder may take."""

LOOK = 1.0
"""Seconds between two looks for processes that hang, or have nothing to do."""


class WorkerProcesses:
    """A mover whose deliveries run in worker processes, and its other calls in processes of their own.

    What a process had that died is started once more, each in a process alone. So the delivery that is to
    blame fails, and the others arrive.
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
        """Abilities of the mover."""
        return self._mover.abilities

    @property
    def pids(self) -> list[int]:
        """Processes that deliver."""
        with self._lock:
            return [process.pid for process in self._processes]

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        """Hand each delivery to the process that has fewest, or to a new one."""
        with self._lock:
            if self._closed:
                return [Started(error="the mover is closed") for _ in deliveries]
            room = max(0, MOST_DELIVERIES - len(self._moving))
            taken = [(self._reference(delivery), delivery) for delivery in deliveries[:room]]
            self._moving |= {reference: DeliveryStatus(state="moving") for reference, _ in taken}
            self._hand_out(taken)
            error = f"{MOST_DELIVERIES} deliveries are under way: wait until some have ended"
            refused = [Started(error=error)] * (len(deliveries) - len(taken))
            return [*(Started(reference=reference) for reference, _ in taken), *refused]

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        """Tell what the processes told last."""
        unknown = DeliveryStatus(state="unknown")
        with self._lock:
            return {one: self._moving.get(one) or self._ended.get(one, unknown) for one in references}

    def cancel(self, references: Collection[str]) -> None:
        """Have deliveries given up; a process in which one does not is ended when its others have ended."""
        with self._lock:
            for process in self._processes:
                if mine := [one for one in references if one in process.deliveries]:
                    process.cancel(mine)
            given_up = [one for one, _ in self._suspects if one in references]
            self._suspects = deque(pair for pair in self._suspects if pair[0] not in given_up)
            self._end({one: DeliveryStatus(state="failed", error="cancelled") for one in given_up})

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> list[InputFile]:
        """See :class:`~pilotage.ports.moving.Mover`; TimeoutError where the storage hangs."""
        found: list[InputFile] = self._calls.call(limits.seconds + SCAN_GRACE, "scan", storage, glob, limits)
        return found

    def remove(self, storage: Storage, prefix: str) -> None:
        """See :class:`~pilotage.ports.moving.Mover`; TimeoutError where the storage hangs."""
        self._calls.call(REMOVAL_LIMIT, "remove", storage, prefix)

    def space(self, storage: Storage) -> Space | None:
        """See :class:`~pilotage.ports.moving.SpaceTeller`; TimeoutError where the storage hangs."""
        if not isinstance(self._mover, SpaceTeller):
            return None
        found: Space | None = self._calls.call(SPACE_LIMIT, "space", storage)
        return found

    def open(self, storage: Storage, path: str) -> AbstractContextManager[Readable]:
        """See :class:`~pilotage.ports.moving.Reader`; TimeoutError where the storage hangs."""
        return self._calls.open(storage, path)

    def store(self, storage: Storage, path: str, stream: Readable, size: int) -> Delivered:
        """See :class:`~pilotage.ports.moving.Reader`; TimeoutError where the storage hangs."""
        return self._calls.store(storage, path, stream, size)

    def grant(self, storage: Storage, path: str, size: int | None = None) -> Grant | None:
        """See :class:`~pilotage.ports.moving.Reader`."""
        return cast(Reader, self._mover).grant(storage, path, size)

    def close(self) -> None:
        """End every process, at once: what it had half written is cleared away by the next attempt."""
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
                {id(one): _load(order for _, order in given) for one, given in shares.values()}
            )
            shares.setdefault(id(process), (process, []))[1].extend(bundle)
        for process, given in shares.values():
            process.start(given)

    def _with_room(self, more: Mapping[int, int]) -> WorkerProcess:
        """The process with fewest deliveries, ``more`` included, or a new one where each has enough."""
        able = [process for process in self._processes if not (process.alone or process.retired)]
        loads = [_load(process.deliveries.values()) + more.get(id(process), 0) for process in able]
        if able and (min(loads) < ENOUGH or len(able) >= MOST_PROCESSES):
            return able[loads.index(min(loads))]
        return self._new(alone=False)

    def _new(self, *, alone: bool) -> WorkerProcess:
        process = WorkerProcess(self._name, self._told, self._gone, alone=alone)
        self._processes.append(process)
        if not self._watched:
            self._watched = True
            threading.Thread(target=self._watch, name=f"watch-{self._name}", daemon=True).start()
        return process

    def _told(self, process: WorkerProcess, news: Statuses) -> None:
        ended = {reference: status for reference, status in news.items() if status.state != "moving"}
        with self._lock:
            self._moving |= {one: status for one, status in news.items() if one in self._moving}
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
        """Start what a dead process had once more, each alone; one that was alone has failed."""
        with self._lock:
            self._processes.remove(process)
            left = {one: order for one, order in process.deliveries.items() if one not in process.cancelled}
            if left and not self._closed:
                log.warning("%s: %s with %d deliveries", self._name, process.last_words(), len(left))
            if len(left) > 1 and not process.alone:
                self._suspects.extend(left.items())
                left = {}
            error = process.last_words()
            lost = [*left, *process.cancelled]
            self._end({one: DeliveryStatus(state="failed", error=error) for one in lost})
            self._try_suspects()
        self._on_change()

    def _end(self, statuses: Statuses) -> None:
        for reference, status in statuses.items():
            self._moving.pop(reference, None)
            self._ended[reference] = status

    def _try_suspects(self) -> None:
        """Give each process for suspects its next one."""
        while self._suspects and not self._closed:
            able = [one for one in self._processes if one.alone and not one.retired]
            free = next((one for one in able if not one.deliveries), None)
            if free is None and len(able) >= MOST_PROCESSES:
                return
            (free or self._new(alone=True)).start([self._suspects.popleft()])

    def _watch(self) -> None:
        """End processes that hang or have nothing to do, until there are none."""
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
    """Deliveries, of which a large one keeps a processor busy."""
    return sum(ENOUGH if order.size >= LARGE else 1 for order in orders)


def _bundles(orders: Iterable[tuple[str, Delivery]]) -> Iterator[Sequence[tuple[str, Delivery]]]:
    """Keep small files together that one slot holds (D8): else each process would have a lane for it."""

    def alike(order: tuple[str, Delivery]) -> tuple[str, int]:
        small = order[1].size <= SMALL_FILE
        return order[1].share, order[1].bundle if small else 1

    for (_, bundle), found in groupby(orders, alike):
        left = iter(found)
        while taken := list(islice(left, bundle)):
            yield taken
