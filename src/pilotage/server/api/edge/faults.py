"""Answers to refusals, and to unexpected errors of routes and of the check of a token: 503 or 500."""

import logging
import secrets
from collections.abc import Mapping
from types import MappingProxyType

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotage.flow.calls.data.catalogue import StillWanted
from pilotage.flow.errors import AlreadyEnrolled, KeyReused, NotNow, NotThere, PilotGone, PilotRefused
from pilotage.ports.catalogue import CatalogueError
from pilotage.request_budget import ClientGone, RequestTooLong
from pilotage.server.api.edge.dependencies import is_of_api
from pilotage.server.api.edge.pages import Pages
from pilotage.server.api.work.event_hub import TooManyStreams
from pilotage.store import (
    SERVES_A_CALLER,
    DatasetTaken,
    FederationChanged,
    FileConflict,
    NoFederation,
    PersonClosed,
    StagesChanged,
    UnreadableTask,
    outage,
)

log = logging.getLogger(__name__)

AWAY: Mapping[str, str] = MappingProxyType({"Retry-After": "5"})
"""Headers of an answer without a database: when a client may repeat its request, in s."""


def refusal_of(
    scope: Scope, pages: Pages | None, status: int, detail: str, headers: Mapping[str, str]
) -> Response:
    """Return the answer to a request that is not served: a page for browsers, else JSON."""
    if pages and not is_of_api(str(scope["path"])):
        page = pages.refuse(Request(scope), status, detail)
        page.headers.update(headers)
        return page
    return JSONResponse({"detail": detail}, status, headers)


class Faults:
    """Answers a request if the application fails: with 503 if the database is away, else with 500.

    Each error is logged. An answer of 500 has the number of its line in the log. The store gives
    up sooner while a caller waits.
    """

    def __init__(self, app: ASGIApp, pages: Pages | None = None) -> None:
        self._app = app
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def sent(message: Message) -> None:
            nonlocal has_begun
            has_begun = has_begun or message["type"] == "http.response.start"
            await send(message)

        SERVES_A_CALLER.set(True)
        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            # Half an answer is sent already: break the connection, so that the client notices.
            if has_begun:
                raise
            await self._answer(scope, error)(scope, receive, send)

    def _answer(self, scope: Scope, error: Exception) -> Response:
        if reason := outage(error):
            log.error("%s %s: %s", scope["method"], scope["path"], reason)
            return refusal_of(scope, self._pages, 503, reason, AWAY)
        # The answer shows only a number: the error may hold secrets.
        fault = secrets.token_hex(6)
        log.error("fault %s: %s %s", fault, scope["method"], scope["path"], exc_info=error)
        return refusal_of(
            scope, self._pages, 500, f"unexpected fault {fault}; the server's log says more", {}
        )


STATUS: Mapping[type[Exception], int] = {
    **dict.fromkeys((AlreadyEnrolled, PersonClosed, PilotRefused), 403),
    NotThere: 404,
    **dict.fromkeys(
        (CatalogueError, DatasetTaken, FederationChanged, FileConflict, KeyReused, StagesChanged), 409
    ),
    **dict.fromkeys((NoFederation, NotNow, StillWanted, UnreadableTask), 409),
    PilotGone: 410,
    RequestTooLong: 413,
    TooManyStreams: 429,
    ClientGone: 499,
}
"""The status of each refusal."""

REFUSALS = tuple(STATUS)


def refusal(fault: Exception) -> tuple[int, str]:
    """Return the status and the words of one of ``REFUSALS``."""
    status = next(STATUS[kind] for kind in type(fault).__mro__ if kind in STATUS)
    return status, type(fault).__doc__ or "" if isinstance(fault, KeyReused | PilotGone) else str(fault)
