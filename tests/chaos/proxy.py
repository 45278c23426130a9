"""A TCP proxy that cuts, slows, silences and repeats what goes through it."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Literal

Mode = Literal["open", "cut", "slow", "silent", "twice"]
"""Open; cut: every connection ends, and no new one begins; slow: each part waits; silent: connections stay,
but nothing passes (half-open); twice: the server gets everything again later, on a connection of its own."""

SLOW = 0.3
"""Seconds that each part waits in the mode ``slow``."""

LATE = 1.5
"""Seconds after which the server gets everything again in the mode ``twice``."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """Listens on a loopback address and forwards to a target: a port, or the path of a socket.

    ``target`` is asked for each connection, so that it may move.
    """

    def __init__(self, host: str, port: int, target: Callable[[], int | str]) -> None:
        self._address, self._target = (host, port), target
        self.mode: Mode = "open"
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name=f"proxy-{port}", daemon=True)
        self._thread.start()
        ready.wait()

    def set(self, mode: Mode) -> None:
        """Change the mode. ``cut`` ends all connections at once."""
        self.mode = mode
        if mode == "cut":
            self.drop()

    def drop(self) -> None:
        """End all connections, without a farewell."""
        self._loop.call_soon_threadsafe(self._abort)

    def close(self) -> None:
        """End everything."""
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def _run(self, ready: threading.Event) -> None:
        start = asyncio.start_server(self._serve, *self._address)
        server = self._loop.run_until_complete(start)
        self._loop.call_soon(ready.set)
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _connected(self) -> Streams:
        target = self._target()
        if isinstance(target, str):
            return await asyncio.open_unix_connection(target)
        return await asyncio.open_connection("127.0.0.1", target)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self.mode == "cut":
                return
            there, onwards = await self._connected()
            self._writers.add(onwards)
            try:
                forward = self._doubled if self.mode == "twice" else self._pump
                await asyncio.gather(forward(reader, onwards), self._pump(there, writer))
            finally:
                self._writers.discard(onwards)
                onwards.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass  # the client sees a connection that ends
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            while self.mode == "silent":
                await asyncio.sleep(0.05)
            if self.mode == "slow":
                await asyncio.sleep(SLOW)
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    async def _doubled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send what a client sends a second time, later than what comes after it, and hear no answer."""
        there, onwards = await self._connected()
        self._writers.add(onwards)
        forgotten = self._loop.create_task(_hear(there))
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
                self._loop.call_later(LATE, onwards.write, data)
            with contextlib.suppress(OSError):
                writer.write_eof()
            await asyncio.sleep(2 * LATE)
        finally:
            forgotten.cancel()
            self._writers.discard(onwards)
            onwards.transport.abort()


async def _hear(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(65_536):
            pass
