"""The client of a request that is worked on: when it goes, the request's budget ends."""

import asyncio

from starlette.types import Message, Receive

from pilotage.request_budget import RequestBudget


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
