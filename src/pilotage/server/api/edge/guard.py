"""Surround every request: refuse early and cheaply, and keep room for pilots.

The framework reads and parses a body before it checks the token, and does both in the shared event loop. So
the guard identifies the caller before it reads, and limits the body before it is parsed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotage import request_budget
from pilotage.model.values.identity import Credential
from pilotage.request_budget import RequestBudget
from pilotage.server.api.edge.access import UNKNOWN, KnownTokens, TokenRefused, token_of
from pilotage.server.api.edge.audit_trail import BODY, CALLER
from pilotage.server.api.edge.body_shapes import shape_fault
from pilotage.server.api.edge.dependencies import TES_PREFIX, is_of_api
from pilotage.server.api.edge.faults import AWAY, refusal_of
from pilotage.server.api.edge.measured_routes import SMALL_BODY, measured
from pilotage.server.api.edge.pages import Pages
from pilotage.server.api.edge.plain_routes import PlainRoute
from pilotage.server.api.edge.requests import ROUTE
from pilotage.server.api.edge.sender_shares import (
    LARGEST_BODY,
    MOST_WAITING,
    BodySpaces,
    ComputingShares,
    NoSpace,
    NoTurn,
    sender_of,
)
from pilotage.server.api.edge.watched_client import Incoming, WatchedClient, discard, watched

MOST_VALUES = 1_000_000
"""Most values in a body, by its commas: 16 MiB of ``[],`` would take seconds and gigabytes to parse."""

LARGEST_FILE = 10**12
"""Most bytes of a file that a pilot or a person sends."""

BODY_TIMEOUT = 60.0
"""Seconds for a body to arrive."""

PEOPLE_AT_ONCE = 24
"""Most concurrent requests of people. There are 40 threads; the others stay free for pilots."""

EACH_AT_ONCE = 6
"""Most concurrent requests of one person: it takes four people at their limit to block the others."""

ROOM_TIMEOUT = 60.0
"""Seconds for which a request waits for room."""

LARGE = (
    "/tasks",
    "/workflows",
    "/files",
    "/datasets",
    "/plan/broker",
    "/federation",
    "/pilot/report",
    "/pilot/end",
    "/pilot/left",
    "/transfers/priorities",
    "/secrets",
    f"{TES_PREFIX}/tasks",
)
"""Routes whose requests carry many records, or a long text."""

STREAMED = ("/pilot/content/", "/files/content")
"""The beginnings of routes that read their body as it arrives, and limit the time of its parts themselves."""


class _Refusal(Exception):
    """A request is refused: status, sentence, and headers of the answer."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


class Guard:
    """Admits requests to the application below ``prefix``.

    It refuses a body without a known token unread (401), a large one by its announced or its real size (413),
    and a slow one after some time (408). While ``away`` returns a reason why the database is away, it admits
    no request (503). It calls ``plain_routes`` itself, by path, and ``refused`` with the reason why a
    token gives no access.
    """

    def __init__(
        self,
        app: ASGIApp,
        prefix: str,
        tokens: Callable[[], KnownTokens],
        pages: Pages | None = None,
        away: Callable[[], str] = str,
        plain_routes: Mapping[str, PlainRoute] = MappingProxyType({}),
        refused: Callable[[Request, str], None] = lambda *_: None,
    ) -> None:
        self._app = app
        self._plain_routes = plain_routes
        self._prefix = prefix
        self._pages = pages
        self._tokens, self._refused = tokens, refused
        self._away = away
        # Pilots' calls are short and many. A person's may hold a thread for seconds.
        self._people = asyncio.Semaphore(PEOPLE_AT_ONCE)
        self._each: dict[str, _Room] = {}
        self._computing = ComputingShares()
        self._spaces = BodySpaces()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._pages:
            scope = self._pages.admit(scope)
        if self._is_at_once(scope):
            # Always serve it: it takes no thread that others could hold.
            await self._serve(scope, receive, send, lambda: None)
            return
        with request_budget.opened() as budget:
            async with contextlib.AsyncExitStack() as stack:
                await self._take(scope, receive, send, budget, stack)

    async def _take(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        budget: RequestBudget,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        """Admit one request, and serve it when there is room. ``stack`` frees the room at the end."""
        incoming, request = Incoming(receive), Request(scope)
        try:
            self._ask_database()
            caller = await self._caller(request)
            size = self._announced(request, caller)
            await self._space(caller, size or 0, stack)
            stack.callback(settle := await self._turn(sender_of(caller), budget))
            body = await self._body(request, incoming, size)
            # Only after the body has arrived: a slow sender takes no place from others.
            stack.callback(give_back := await self._room(request, incoming, sender_of(caller)))
            self._ask_database()  # it may have gone away while the request waited
        except _Refusal as refusal:
            await self._refuse(refusal, scope, incoming, send)
            return

        def answered() -> None:
            settle()
            give_back()

        if body is None:
            await self._serve(scope, incoming, send, answered)
            return
        client = WatchedClient(body, incoming, budget)
        if scope["method"] == "POST" and scope["path"] in self._plain_routes:
            answer = await self._plain_answer(request, caller, body, client)
            answered()
            await answer(scope, incoming, send)
            return
        del body
        async with client:
            await self._serve(scope, client, send, answered)

    async def _plain_answer(
        self, request: Request, caller: Credential | None, body: bytes, client: WatchedClient
    ) -> Response:
        """Return the answer of a plain route. It notes the route, and watches the client of a large body."""
        path = request.scope["path"]
        request.scope.setdefault(ROUTE, {})["path"] = path
        async with client if len(body) > SMALL_BODY else contextlib.nullcontext():
            return await self._plain_routes[path](request, caller, body)

    async def _refuse(self, refusal: "_Refusal", scope: Scope, incoming: Incoming, send: Send) -> None:
        # A client that is still sending would never read the answer: discard part of the rest.
        await discard(incoming, 2**18 if refusal.status == 401 else 4 * LARGEST_BODY)
        headers = {"Connection": "close", **refusal.headers}
        answer = refusal_of(scope, self._pages, refusal.status, refusal.detail, headers)
        await answer(scope, incoming, send)

    async def _turn(self, sender: str, budget: RequestBudget) -> Callable[[], None]:
        """Wait for a sender's turn. Return the function that settles its computing. Raises _Refusal."""
        if not sender:
            return lambda: None
        turn = self._computing.turn(sender, budget)
        try:
            await turn.wait()
        except NoTurn as error:
            raise _Refusal(503, str(error), {"Retry-After": f"{error.wait:.0f}"}) from None
        return turn.settle

    def _ask_database(self) -> None:
        """Raise ``_Refusal`` while the database is away."""
        if reason := self._away():
            raise _Refusal(503, reason, AWAY)

    async def _room(self, request: Request, receive: Receive, person: str) -> Callable[[], None]:
        """Wait for room for a person's request while its client is there.

        Return the function that frees it. Raises _Refusal.
        """
        # A body that a route reads as it arrives may take hours. Such routes have places of their own.
        is_streamed = request.method == "PUT" and self._path(request.scope).startswith(STREAMED)
        if is_streamed or self._path(request.scope).startswith("/pilot/"):
            return lambda: None
        room = self._each.setdefault(person, _Room())
        if room.asked >= EACH_AT_ONCE + MOST_WAITING:
            raise _Refusal(429, f"{room.asked} requests of yours are worked on or wait; send fewer at once")
        room.asked += 1

        def release() -> None:
            room.asked -= 1
            if not room.asked:
                self._each.pop(person, None)

        try:
            is_full = room.places.locked() or self._people.locked()
            async with asyncio.timeout(ROOM_TIMEOUT) as limit, watched(limit, receive if is_full else None):
                await room.places.acquire()
                try:
                    await self._people.acquire()
                except BaseException:
                    room.places.release()
                    raise
        except BaseException as error:
            release()
            if isinstance(error, TimeoutError):
                raise _Refusal(503, f"no room for the request within {ROOM_TIMEOUT:g} s") from None
            raise

        def give_back() -> None:
            self._people.release()
            room.places.release()
            release()

        return _once(give_back)

    async def _caller(self, request: Request) -> Credential | None:
        token = token_of(request)
        request.scope[CALLER] = None
        try:
            request.scope[CALLER] = caller = await self._tokens().examine(token) if token else None
            if token and caller is None and is_of_api(request.scope["path"]):
                self._refused(request, UNKNOWN)
            return caller
        except TokenRefused as refused:
            if not is_of_api(request.scope["path"]):
                return None  # the metrics' token may have any form
            self._refused(request, refused.detail)
            raise _Refusal(refused.status_code, refused.detail, refused.headers or {}) from None

    def _path(self, scope: Scope) -> str:
        """Return the path below the prefix; of a page, one that no route of the API has."""
        path = str(scope["path"])
        if path.startswith(f"{TES_PREFIX}/"):
            return path
        return path.removeprefix(self._prefix) if path.startswith(self._prefix) else f"page:{path}"

    def _is_at_once(self, scope: Scope) -> bool:
        path = self._path(scope)
        begins = f"page:{self._pages.at_once}" if self._pages else "/health"
        return path.startswith(("/health", begins))

    def _announced(self, request: Request, caller: Credential | None) -> int | None:
        """Return the most bytes of a body; None if its route reads it itself. Raises ``_Refusal``."""
        announced = request.headers.get("content-length", "0")
        in_parts = "transfer-encoding" in request.headers
        if announced == "0" and not in_parts:
            return 0
        path = self._path(request.scope)
        opened = self._pages.open_bodies.get(request.url.path, 0) if self._pages else 0
        if caller is None and not opened:
            raise _Refusal(401, UNKNOWN, {"WWW-Authenticate": "Bearer"})
        streamed = path.startswith(STREAMED)
        is_large = path in LARGE or (self._pages and request.url.path in self._pages.large_bodies)
        limit = LARGEST_FILE if streamed else LARGEST_BODY if is_large else opened or SMALL_BODY
        size = int(announced) if announced.isdecimal() and not in_parts else limit
        if size > limit:
            raise _too_large(limit)
        return None if streamed else size

    async def _space(self, caller: Credential | None, size: int, stack: contextlib.AsyncExitStack) -> None:
        # The number of connections bounds the small reports of pilots.
        if caller and size > (SMALL_BODY if caller.pilot else 0):
            sender = sender_of(caller)
            try:
                await self._spaces.take(sender, size)
            except NoSpace as error:
                raise _Refusal(429, str(error)) from None
            stack.callback(self._spaces.give_back, sender, size)

    async def _body(self, request: Request, receive: Receive, size: int | None) -> bytes | None:
        """Return the whole body, None if its route reads it. Raises ``_Refusal``."""
        if not size:
            return None if size is None else b""
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                body = await _read(receive, size)
        except TimeoutError:
            raise _Refusal(408, f"the request took longer than {BODY_TIMEOUT:g} s to arrive") from None
        is_json = "json" in request.headers.get("content-type", "").lower()
        if (
            len(body) > SMALL_BODY
            and is_json
            and (fault := await run_in_threadpool(measured(shape_fault), body))
        ):
            raise _Refusal(413, f"the request {fault}")
        request.scope[BODY] = body if len(body) <= SMALL_BODY else None
        return body

    async def _serve(self, scope: Scope, receive: Receive, send: Send, release: Callable[[], None]) -> None:
        async def sent(message: Message) -> None:
            release()  # the work is done: a client that reads slowly holds nobody up
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            release()


def _too_large(limit: int) -> _Refusal:
    return _Refusal(413, f"the request is larger than {limit} bytes; send it in parts")


async def _read(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = values = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        part: bytes = message.get("body", b"")
        parts.append(part)
        size += len(part)
        # Commas inside text count too. Counting too many is safe, and needs no parser.
        values += part.count(b",")
        if size > limit:
            raise _too_large(limit)
        if values > MOST_VALUES:
            raise _Refusal(413, f"the request has more than {MOST_VALUES} values; send it in parts")
        if not message.get("more_body", False):
            return b"".join(parts)


class _Room:
    """The room of one person, and the number of requests that want it."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(EACH_AT_ONCE)
        self.asked = 0


def _once(call: Callable[[], None]) -> Callable[[], None]:
    calls = contextlib.ExitStack()
    calls.callback(call)
    return calls.close
