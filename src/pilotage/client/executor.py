"""An executor of the standard library; its calls run as jobs."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ._sync.functions import Functions, MappedTask
from .errors import CallFailed
from .functions import Calls

GATHER = 0.1
"""Seconds to gather calls into one task."""

LONGEST = 1.0
"""Most seconds to gather calls while more of them come."""

MOST_WATCHED = 16
"""Most tasks to follow at a time; others wait for one to end."""

_Item = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass
class _Batch:
    """Calls that become one task, with their futures. It began at ``begun`` on the monotonic clock."""

    calls: Calls = field(default_factory=Calls)
    futures: "list[Future[Any]]" = field(default_factory=list)
    begun: float = 0.0

    def add(self, future: "Future[Any]") -> None:
        """Add the future of the last call."""
        self.begun = self.begun or time.monotonic()
        self.futures.append(future)


class TaskExecutor(Executor):
    """Runs Python functions as jobs. Calls that come within a tenth of a second become one task.

    ``fields`` are fields of the tasks, such as ``ram=2000``. Functions and arguments are pickled by
    cloudpickle: the nodes need the same minor version of Python, and the packages that the functions
    import. Results are unpickled here, so no other person may be able to change the jobs.
    """

    def __init__(self, client: Functions, fields: Mapping[str, Any]) -> None:
        """Run calls through a client, which a shutdown that waits closes."""
        self._client = client
        self._fields = fields
        self._waiting: queue.Queue[_Item | None] = queue.Queue()
        self._lock = threading.Lock()
        self._is_shut = False
        self._watchers = ThreadPoolExecutor(MOST_WATCHED, thread_name_prefix="pilotage-task")
        self._gatherer = threading.Thread(target=self._gather, name="pilotage-executor", daemon=True)
        self._gatherer.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run a call as a job, and return its future. Raises RuntimeError after a shutdown."""
        future: Future[Any] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.put((future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse further calls. With ``wait``, return when all have ended; their tasks go on in any case."""
        with self._lock:
            if not self._is_shut:
                self._is_shut = True
                if cancel_futures:
                    self._cancel_waiting()
                self._waiting.put(None)
        if wait:
            self._gatherer.join()
            self._watchers.shutdown(wait=True)
            self._client.close()

    def _cancel_waiting(self) -> None:
        while True:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                return
            if item:
                item[0].cancel()

    def _gather(self) -> None:
        """Gather calls into tasks until the executor is shut."""
        batch = _Batch()
        while True:
            try:
                item = self._waiting.get(timeout=GATHER if batch.futures else None)
            except queue.Empty:
                batch = self._start(batch)
                continue
            if item is None:
                self._start(batch)
                return
            future, function, args, keywords = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if not batch.calls.add(function, args, keywords):
                    batch = self._start(batch)
                    batch.calls.add(function, args, keywords)
            except Exception as error:  # its future raises what pickle raised
                future.set_exception(error)
                continue
            batch.add(future)
            if time.monotonic() - batch.begun > LONGEST:
                batch = self._start(batch)

    def _start(self, batch: "_Batch") -> "_Batch":
        """Run gathered calls as one task. Return an empty batch."""
        if batch.futures:
            self._watchers.submit(self._run, batch.calls.document(self._fields), batch.futures)
        return _Batch()

    def _run(self, document: Mapping[str, Any], futures: "list[Future[Any]]") -> None:
        """Submit one task, and give each future its result when its job has ended."""
        try:
            mapped = MappedTask(self._client.submit(document), self._client)
            for job in mapped.as_completed():
                if job.index is not None:
                    _settle(futures[job.index], partial(mapped.result, job))
        except Exception as error:
            _fail(futures, error)
        _fail(futures, CallFailed("its task has ended without it"))


def _settle(future: "Future[Any]", result: Callable[[], Any]) -> None:
    try:
        future.set_result(result())
    except Exception as error:
        future.set_exception(error)


def _fail(futures: "list[Future[Any]]", error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
