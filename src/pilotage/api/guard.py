"""What surrounds every request: an answer, whatever happens inside."""

import logging
import secrets

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)


class Guard:
    """Logs what nobody expected, and answers 500 with the number under which the log has it."""

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
            await self._app(scope, receive, sent)
        except Exception:
            if started:
                raise
            fault = secrets.token_hex(6)
            log.exception("fault %s: %s %s", fault, scope["method"], scope["path"])
            detail = f"unexpected fault {fault}; the server's log says more"
            await JSONResponse({"detail": detail}, 500)(scope, receive, send)
