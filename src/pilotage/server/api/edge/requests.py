"""What the server notes of each request: its id, a line of the access log, and how long its answer took."""

import logging
import random
import re
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotage.log_lines import bound
from pilotage.model.records.measurements import REQUEST_SECONDS, REQUESTS
from pilotage.store.database.measurements import Measurements

log = logging.getLogger("pilotage.access")

ID_HEADER = "X-Request-ID"
"""A proxy may give a request its id; else the server does. The answer repeats it."""

NO_ROUTE = "none"
"""The route of paths that the server does not have: they would make labels without end."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
ROUTE = "pilotage.route"
"""The key of the note for ``RequestLog``, which has the ``path`` of the route that answered."""


class RequestLog:
    """The outermost layer: binds the request's id, and notes how it was answered."""

    def __init__(self, app: ASGIApp, measurements: Measurements) -> None:
        self._app = app
        self._measurements = measurements

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = Headers(scope=scope).get(ID_HEADER, "")
        number = header if _ID.fullmatch(header) else f"{random.getrandbits(64):016x}"
        status, began = 0, time.perf_counter()
        seconds = None

        async def sent(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - began
                MutableHeaders(scope=message)[ID_HEADER] = number
            await send(message)

        note: dict[str, str] = {}
        with bound(request=number):
            try:
                await self._app({**scope, ROUTE: note}, receive, sent)
            finally:
                # Streams last after their answer began: that time is their readers'.
                took = time.perf_counter() - began if seconds is None else seconds
                self._note(scope["method"], note.get("path", NO_ROUTE), status, took)

    def _note(self, method: str, route: str, status: int, seconds: float) -> None:
        method = method if method in METHODS else "other"
        self._measurements.count(REQUESTS, (method, route, str(status)))
        self._measurements.observe(REQUEST_SECONDS, (method, route), seconds)
        fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
        line = "%(method)s %(route)s %(status)s in %(ms)s ms"
        log.info(line, fields, extra={"access": fields})


class RouteNote:
    """The innermost layer: notes the path template of the route that answered, for ``RequestLog``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            await self._app(scope, receive, send)
        finally:
            note: MutableMapping[str, Any] = scope.get(ROUTE, {})
            if path := getattr(scope.get("route"), "path", ""):
                note["path"] = path
