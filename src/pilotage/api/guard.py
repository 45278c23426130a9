"""What surrounds every request: a limit on its size, and an answer whatever happens inside."""

import logging
import secrets

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

LARGEST_BODY = 16 * 1024 * 1024
"""Bytes of a request: some ten thousand tasks, or reports."""


class Guard:
    """Refuses bodies that are too large with 413. Logs what nobody expected, and answers 500 with its number.

    The framework's own limit answers in plain text, which no client of ours understands.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, _limited(receive), sent)
        except Exception:
            if started:
                raise
            fault = secrets.token_hex(6)
            log.exception("fault %s: %s %s", fault, scope["method"], scope["path"])
            detail = f"unexpected fault {fault}; the server's log says more"
            await JSONResponse({"detail": detail}, 500)(scope, receive, send)


def _limited(receive: Receive) -> Receive:
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            raise HTTPException(413, f"the request is larger than {LARGEST_BODY} bytes; send it in parts")
        return message

    return limited
