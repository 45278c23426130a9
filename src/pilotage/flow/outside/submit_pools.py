"""Submit pools: limited pools of workers that submit pilots to computing elements (P5)."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from pilotage.flow.outside.workers import PlaceBusy, WorkersPort
from pilotage.model.records.constants import SubmitPool
from pilotage.model.records.observations import PoolReport

T = TypeVar("T")

IDLE = 10.0
"""Seconds without a submission after which a worker beyond the pool's minimum ends."""

SUBMISSION_LIMIT = 120.0
"""Seconds for a submission before its outcome counts as unknown."""


class SubmitPools:
    """The declared submit pools by name. ``configure`` follows the declaration (P11)."""

    def __init__(self, workers: WorkersPort) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._pools: dict[str, _Pool] = {}

    def configure(self, declared: Mapping[str, SubmitPool]) -> None:
        """Make, change and close pools. Submissions waiting in a removed one still happen."""
        with self._lock:
            for name in self._pools.keys() - declared.keys():
                # Its workers end one by one when its queue is empty.
                self._pools.pop(name).resize(SubmitPool(min_threads_in_pool=0))
            for name, pool in declared.items():
                existing = self._pools.get(name)
                if existing is None:
                    self._pools[name] = _Pool(name, pool, self._workers)
                elif existing.declared != pool:
                    existing.resize(pool)

    def reports(self) -> tuple[PoolReport, ...]:
        """Return the load of each pool."""
        with self._lock:
            return tuple(
                PoolReport(pool=name, submissions=pool.submissions)
                for name, pool in sorted(self._pools.items())
            )

    def submit(self, pool: str, place: str, function: Callable[[], T]) -> "Future[T]":
        """Let a pool make a call to a place.

        The future fails with PlaceBusy if the place is full, and with TimeoutError if the call did not end in
        time.
        """
        with self._lock:
            target = self._pools.get(pool)
        if target is None:
            # Its pilots were recorded before the pool left the federation.
            return self._workers.call(place, function, SUBMISSION_LIMIT)
        return target.put(place, function)

    def close(self) -> None:
        """Start nothing more."""
        with self._lock:
            for pool in self._pools.values():
                pool.close()


class _Pool:
    """Workers of one pool. Each passes its submission to the place's workers, and waits there."""

    def __init__(self, name: str, declared: SubmitPool, workers: WorkersPort) -> None:
        self.name = name
        self.declared = declared
        self._workers = workers
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._running = 0
        self._closed = False
        self.resize(declared)

    @property
    def submissions(self) -> int:
        """Return how many submissions run and wait."""
        with self._changed:
            return self._running + len(self._waiting)

    def resize(self, declared: SubmitPool) -> None:
        """Change the pool's limits. Workers start immediately, and end when they are free."""
        with self._changed:
            self.declared = declared
            self._start()
            self._changed.notify_all()

    def put(self, place: str, function: Callable[[], T]) -> "Future[T]":
        """Queue a submission."""
        if self._workers.inline:
            return self._workers.call(place, function, SUBMISSION_LIMIT)
        future: Future[T] = Future()

        def task() -> None:
            try:
                future.set_result(self._workers.call(place, function, SUBMISSION_LIMIT).result())
            except Exception as error:
                future.set_exception(error)

        with self._changed:
            full = self._running + len(self._waiting) >= self.declared.total_threads_in_pool
            if not full and not self._closed:
                self._waiting.append(partial(copy_context().run, task))
                self._start()
                self._changed.notify()
                return future
        future.set_exception(PlaceBusy(f"submit pool {self.name} takes no more"))
        return future

    def close(self) -> None:
        """Start nothing more."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _start(self) -> None:
        """Start workers for waiting submissions. The caller holds the lock."""
        if self._workers.inline or self._closed:
            return
        needed = min(self._running + len(self._waiting), self.declared.max_threads_in_pool)
        while self._threads < max(needed, self.declared.min_threads_in_pool):
            self._threads += 1
            threading.Thread(target=self._work, name=f"submit-{self.name}", daemon=True).start()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task()
            with self._changed:
                self._running -= 1

    def _next(self) -> Callable[[], None] | None:
        """Return the next submission; None if this worker is superfluous, and ends."""
        with self._changed:
            # The first turn counts as woken, because a worker starts for something.
            woken = True
            while True:
                spare = self._threads > self.declared.min_threads_in_pool
                if self._closed or self._threads > self._limit() or (spare and not (woken or self._waiting)):
                    self._threads -= 1
                    return None
                if self._waiting:
                    self._running += 1
                    return self._waiting.popleft()
                woken = self._changed.wait(IDLE if spare else None)

    def _limit(self) -> int:
        return max(self.declared.max_threads_in_pool, self.declared.min_threads_in_pool)
