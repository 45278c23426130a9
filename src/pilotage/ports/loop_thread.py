"""An event loop for adapters with an asynchronous client library and a synchronous port."""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)


class LoopThread:
    """An event loop on its own daemon thread, started at the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine there."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # Libraries leave tasks behind when a connection breaks. Their callers already have the error.
                self._loop.set_exception_handler(_unheard)
                threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, coroutine: Coroutine[Any, Any, T], time_limit: float) -> T:
        """Run a coroutine there. Raises TimeoutError, and the coroutine's exceptions."""
        future = self.submit(coroutine)
        try:
            return future.result(time_limit)
        finally:
            future.cancel()


def _unheard(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.debug("%s: %r", context.get("message"), context.get("exception"))
