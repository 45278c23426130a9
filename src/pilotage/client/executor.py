"""An executor of the standard library whose calls run as jobs."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from .errors import CallFailed
from .functions import Calls

if TYPE_CHECKING:
    from pilotage.settings import Settings


GATHER = 0.1
"""Seconds for which calls are gathered into one task."""

LONGEST = 1.0
"""Most seconds for which calls are gathered while more of them come."""

MOST_WATCHED = 16
"""Most tasks that are followed at once; others wait for one to end."""

_Item = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class TaskExecutor(Executor):
    """Runs Python functions as jobs. Calls that come within a tenth of a second become one task.

    ``fields`` are those of the tasks, such as ``ram=2000``. Functions and arguments are pickled by
    cloudpickle: the nodes need the same minor version of Python, and no packages but those that the
    functions import. Results are unpickled here, so they must come from jobs that nobody else can change.
    """

    def __init__(self, settings: "Settings", fields: Mapping[str, Any]) -> None:
        from ._sync.client import Client

        self._client: Client = Client(settings=settings)
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
        """Take no more calls. With ``wait``, return when all have ended; their tasks go on in any case."""
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
        calls, futures, name, begun = Calls(), list[Future[Any]](), "", 0.0
        while True:
            try:
                item = self._waiting.get(timeout=GATHER if futures else None)
            except queue.Empty:
                self._start(calls, futures, name)
                calls, futures = Calls(), []
                continue
            if item is None:
                self._start(calls, futures, name)
                return
            future, function, args, keywords = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if not calls.add(function, args, keywords):
                    self._start(calls, futures, name)
                    calls, futures = Calls(), []
                    calls.add(function, args, keywords)
            except Exception as error:  # what cannot be pickled is told by its future
                future.set_exception(error)
                continue
            begun = begun if futures else time.monotonic()
            futures.append(future)
            if time.monotonic() - begun > LONGEST:
                self._start(calls, futures, name)
                calls, futures = Calls(), []
            name = getattr(function, "__name__", "function")

    def _start(self, calls: Calls, futures: "list[Future[Any]]", name: str) -> None:
        if futures:
            self._watchers.submit(self._run, calls.document(name, self._fields), futures)

    def _run(self, document: Mapping[str, Any], futures: "list[Future[Any]]") -> None:
        """Submit one task, and give each future its result when its job has ended."""
        from ._sync.functions import MappedTask

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
