"""Bodies of requests that are read as they arrive, and never held whole."""

import asyncio
import time
from math import inf

import anyio
from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from pilotage.ports.moving import StorageError
from pilotage.server.api.edge.guard import BODY_TIMEOUT


def announced_size(request: Request) -> int:
    """Return the bytes that a request announces for its body. Raises HTTPException (411) without them."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        raise HTTPException(411, "the size of a file is missing: send Content-Length")
    return int(length)


class BodyStream:
    """The body of a request as a stream for a thread other than the event loop's.

    ``sender`` is who sends it, in words. All of it must arrive within ``seconds``.
    """

    def __init__(self, request: Request, sender: str, seconds: float = inf) -> None:
        self._parts = aiter(request.stream())
        self._rest = memoryview(b"")
        self._sender, self._seconds = sender, seconds
        self._end = time.monotonic() + seconds

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes. Raises StorageError if they do not arrive."""
        if not self._rest:
            self._rest = memoryview(anyio.from_thread.run(self._next))
        data, self._rest = self._rest[:size], self._rest[size:]
        return bytes(data)

    async def _next(self) -> bytes:
        left = self._end - time.monotonic()
        try:
            async with asyncio.timeout(min(BODY_TIMEOUT, left)):
                return await anext(self._parts, b"")
        except TimeoutError:
            if left <= BODY_TIMEOUT:
                late = f"{self._sender} sent too slowly: the file did not arrive within {self._seconds:g} s"
                raise StorageError(late) from None
            raise StorageError(f"{self._sender} sent nothing for {BODY_TIMEOUT:g} s") from None
        except ClientDisconnect:
            raise StorageError(f"{self._sender} went away") from None
