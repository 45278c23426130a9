"""The client of a request: its messages, and its going, which ends the request's budget."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.types import Message, Receive

from pilotage.request_budget import RequestBudget

DISCARD_TIMEOUT = 5.0
"""Seconds for which the server still reads the body of a refused request."""


class Incoming:
    """The messages of a request. After its body, the next one arrives when the client disconnects."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.ended = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self.ended = not message.get("more_body", False)
        return message


@contextlib.asynccontextmanager
async def watched(limit: asyncio.Timeout, receive: Receive | None) -> AsyncIterator[None]:
    """Let a wait end immediately if its client disconnects, so that it does not count against the person."""

    async def watch(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        limit.reschedule(asyncio.get_running_loop().time())

    watcher = asyncio.create_task(watch(receive)) if receive else None
    try:
        yield
    finally:
        if watcher:
            watcher.cancel()


async def discard(incoming: Incoming, limit: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_TIMEOUT):
            while limit > 0 and not incoming.ended:
                limit -= len((await incoming()).get("body", b""))


class WatchedClient:
    """The client of a request after its body was read. Returns the body, and ends the budget when it goes."""

    def __init__(self, body: bytes, receive: Receive, budget: RequestBudget) -> None:
        self._body = [body]
        self._receive = receive
        self._budget = budget

    async def __aenter__(self) -> None:
        """Begin to watch."""
        self._gone = asyncio.create_task(self._watch())

    async def __aexit__(self, *_: object) -> None:
        """Stop watching."""
        self._gone.cancel()

    async def __call__(self) -> Message:
        """Return the body, then wait until the client is gone."""
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await asyncio.shield(self._gone)
        return {"type": "http.disconnect"}

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._budget.is_client_gone = True
