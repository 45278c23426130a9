"""The process of blocking calls. It scans, reads, writes and clears storages for a server, one call at a
time.

Run as ``python -m pilotage.adapters.movers.processes.call_worker MOVER DESCRIPTOR CODE``, like ``worker``.
Each call gets two answers: that the process accepted it, and its result. Between the two, the bytes of a file
to read or write go in their own messages, ended by an empty one.
"""

import os
import select
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, cast

from pilotage.adapters.movers.processes.call_records import (
    KINDS,
    MESSAGE,
    CallOrder,
    CallResult,
    ReceivedBytes,
    call_code,
)
from pilotage.adapters.movers.processes.spawning import serve
from pilotage.adapters.movers.processes.worker import GROUP
from pilotage.adapters.movers.storages.backend_calls import reason
from pilotage.model.records.federation import Storage
from pilotage.ports import adapters
from pilotage.ports.moving import Mover, Reader

IDLE = 30.0
"""Seconds without a call after which the process ends, to free its memory."""


class CallWorker:
    """Answers calls from a connection until it stays unused, or the server is gone."""

    def __init__(self, mover: str, connection: "Connection[Any, Any]") -> None:
        self._mover: Mover = adapters.factory(GROUP, mover)(lambda: None)
        self._connection = connection

    def run(self) -> None:
        """Work until no call comes for ``IDLE`` s."""
        threading.Thread(target=self._end_with_server, daemon=True).start()
        while self._connection.poll(IDLE):
            order: CallOrder = self._connection.recv()
            self._connection.send(CallResult())
            self._connection.send(self._result(order))

    def _result(self, order: CallOrder) -> CallResult:
        calls: Mapping[str, Callable[..., object]] = {"open": self._open, "store": self._store}
        call = calls.get(order.method) or getattr(self._mover, order.method)
        try:
            return CallResult(call(order.storage, *order.arguments))
        except Exception as error:  # a mover may be foreign code
            kind = next((name for name, kind in KINDS.items() if isinstance(error, kind)), "StorageError")
            missing = isinstance(error.__cause__, FileNotFoundError)
            return CallResult(kind=kind, error=reason(error), missing=missing)

    def _open(self, storage: Storage, path: str) -> None:
        """Report that a file could be opened, then send its bytes. They also end if reading breaks off."""
        with cast(Reader, self._mover).open(storage, path) as stream:
            self._connection.send(CallResult())
            try:
                while chunk := stream.read(MESSAGE):
                    self._connection.send_bytes(chunk)
            finally:
                self._connection.send_bytes(b"")

    def _store(self, storage: Storage, path: str, size: int) -> object:
        """Write a file from the connection's bytes. Take them all even if writing fails."""
        stream = ReceivedBytes(self._connection)
        try:
            return cast(Reader, self._mover).store(storage, path, stream, size)
        finally:
            while stream.read(MESSAGE):
                pass

    def _end_with_server(self) -> None:
        """End the process immediately when the server is gone, also during a call."""
        watch = select.poll()
        watch.register(self._connection.fileno(), 0)  # poll always reports a closed connection
        watch.poll()
        os._exit(0)


if __name__ == "__main__":
    serve(CallWorker, call_code())
