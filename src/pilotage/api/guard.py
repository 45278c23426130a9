"""Surround every request: refuse early and cheaply, and keep room for pilots.

The framework reads and parses a body before it checks the token, and does both in the shared event loop. So
the guard identifies the caller before it reads, and limits the body before anybody parses it.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotage import request_budget

from .access import UNKNOWN, KnownTokens, bearer_of
from .body_shapes import shape_fault
from .faults import AWAY, refusal_of
from .pages import Pages
from .watched_client import WatchedClient

LARGEST_BODY = 16 * 1024 * 1024
"""Most bytes of a request with many records: some ten thousand tasks, or reports."""

SMALL_BODY = 64 * 1024
"""Most bytes of any other request."""

MOST_HELD = 4 * LARGEST_BODY
"""Most bytes of all bodies of one person, or of their pilots, that arrive or are worked on."""

BODY_RATE = 2 * 1024 * 1024
"""Bytes a second of large bodies of one person, or of their pilots. Nobody else is served while one is
parsed, which takes some 0.1 s for each MiB: so a person takes a fifth of that time at most."""

MOST_VALUES = 1_000_000
"""Most values in a body, counted by its commas: 16 MiB of ``[],`` would take seconds and gigabytes to
parse."""

LARGEST_FILE = 10**12
"""Most bytes of a file that a pilot sends."""

BODY_TIMEOUT = 60.0
"""Seconds for a body to arrive."""

DISCARD_TIMEOUT = 5.0
"""Seconds for which the server still reads the body of a refused request."""

PEOPLE_AT_ONCE = 24
"""Most concurrent requests of people. There are 40 threads; the others stay free for pilots."""

EACH_AT_ONCE = 6
"""Most concurrent requests of one person: it takes four people at their limit to block the others."""

MOST_WAITING = 200
"""Most waiting requests of one person. Further ones are refused. A client that disconnects waits no more."""

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
    "/transfers/priorities",
    "/secrets",
)
"""Routes whose requests carry many records, or a long text."""

STREAMED = "/pilot/content/"
"""The beginning of routes that read their body as it arrives, and limit the time of its parts themselves."""


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
    and a slow one after some time (408). While the database is ``away``, for the reason that this
    returns, it admits nobody (503).
    """

    def __init__(
        self,
        app: ASGIApp,
        prefix: str,
        tokens: Callable[[], KnownTokens],
        pages: Pages | None = None,
        away: Callable[[], str] = str,
    ) -> None:
        self._app = app
        self._prefix = prefix
        self._pages = pages
        self._tokens = tokens
        self._away = away
        # Pilots' calls are short and many. A person's may hold a thread for seconds.
        self._people = asyncio.Semaphore(PEOPLE_AT_ONCE)
        self._each: dict[str, _Room] = {}
        self._held: Counter[str] = Counter()
        self._pace = BodyPace()

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
        held = _HeldBytes(self._held)
        try:
            await self._take(scope, receive, send, held)
        finally:
            held.release()

    async def _take(self, scope: Scope, receive: Receive, send: Send, held: "_HeldBytes") -> None:
        """Admit one request, and serve it when there is room."""
        incoming = _Incoming(receive)
        try:
            self._ask_database()
            body = await self._admitted(Request(scope), incoming, held)
            # Only after the body has arrived: a slow sender takes no place from others.
            release = await self._room(Request(scope), incoming)
            try:
                # It may have gone away while the request waited.
                self._ask_database()
            except _Refusal:
                release()
                raise
        except _Refusal as refusal:
            # A client that is still sending would never read the answer: discard part of the rest.
            await _discard(incoming, 2**18 if refusal.status == 401 else 4 * LARGEST_BODY)
            headers = {"Connection": "close", **refusal.headers}
            answer = refusal_of(scope, self._pages, refusal.status, refusal.detail, headers)
            await answer(scope, incoming, send)
            return
        with request_budget.opened() as budget:
            if body is None:
                await self._serve(scope, incoming, send, release)
                return
            client = WatchedClient(body, incoming, budget)
            del body
            async with client:
                await self._serve(scope, client, send, release)

    def _ask_database(self) -> None:
        """Raise :class:`_Refusal` while the database is away."""
        if told := self._away():
            raise _Refusal(503, told, AWAY)

    async def _room(self, request: Request, receive: Receive) -> Callable[[], None]:
        """Wait for room for a person's request, whose body is read, while its client is there.

        Return the function that frees it. Raises _Refusal.
        """
        if self._path(request.scope).startswith("/pilot/"):
            return lambda: None
        person = await self._person(request)
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
            async with asyncio.timeout(ROOM_TIMEOUT) as limit, _watched(limit, receive if is_full else None):
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

    async def _person(self, request: Request) -> str:
        """Return the VO and name of a caller. Unknown ones share one room: the routes refuse them at once."""
        token = bearer_of(request.headers.get("authorization", ""))
        caller = await self._tokens().find(token) if token else None
        return caller.identity.key if caller else ""

    def _path(self, scope: Scope) -> str:
        """Return the path below the prefix; of a page, one that no route of the API has."""
        path = str(scope["path"])
        return path.removeprefix(self._prefix) if path.startswith(self._prefix) else f"page:{path}"

    def _is_at_once(self, scope: Scope) -> bool:
        path = self._path(scope)
        begins = f"page:{self._pages.at_once}" if self._pages else "/health"
        return path.startswith(("/health", begins))

    async def _admitted(self, request: Request, receive: Receive, held: "_HeldBytes") -> bytes | None:
        """Return the whole body, None if its route reads it. Raises :class:`_Refusal`."""
        announced = request.headers.get("content-length", "0")
        if announced == "0" and "transfer-encoding" not in request.headers:
            return b""
        path = self._path(request.scope)
        opened = self._pages.open_bodies.get(request.url.path, 0) if self._pages else 0
        token = bearer_of(request.headers.get("authorization", ""))
        caller = await self._tokens().find(token) if token else None
        if caller is not None:
            # A person's pilots share among them: as many shares as pilots would be as many as they like.
            held.sender = f"pilots of {caller.identity.key}" if caller.pilot else caller.identity.key
            held.free = SMALL_BODY if caller.pilot else 0
        elif not opened:
            raise _Refusal(401, UNKNOWN, {"WWW-Authenticate": "Bearer"})
        streamed = path.startswith(STREAMED)
        is_large = path in LARGE or (self._pages and request.url.path in self._pages.large_bodies)
        limit = LARGEST_FILE if streamed else LARGEST_BODY if is_large else opened or SMALL_BODY
        if announced.isdecimal() and int(announced) > limit:
            raise _too_large(limit)
        if streamed:
            return None
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                body = await _read(receive, limit, held)
        except TimeoutError:
            raise _Refusal(408, f"the request took longer than {BODY_TIMEOUT:g} s to arrive") from None
        await self._pace.wait(held.sender, len(body))
        is_large_json = len(body) > SMALL_BODY and "json" in request.headers.get("content-type", "")
        if is_large_json and (fault := await run_in_threadpool(shape_fault, body)):
            raise _Refusal(413, f"the request {fault}")
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


async def _read(receive: Receive, limit: int, held: "_HeldBytes") -> bytes:
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
        held.take(len(part))
        if values > MOST_VALUES:
            raise _Refusal(413, f"the request has more than {MOST_VALUES} values; send it in parts")
        if not message.get("more_body", False):
            return b"".join(parts)


class _HeldBytes:
    """The bytes of a request's body in memory, among all that its sender has there."""

    def __init__(self, of_all: Counter[str]) -> None:
        self.sender = ""
        self.free = 0
        """Bytes that are not counted: the number of connections bounds the small reports of pilots."""
        self._of_all = of_all
        self._size = 0

    def take(self, size: int) -> None:
        """Count further bytes. Raises :class:`_Refusal` if the sender has too many in memory."""
        self.free, size = max(0, self.free - size), max(0, size - self.free)
        if self._of_all[self.sender] + size > MOST_HELD:
            raise _Refusal(429, f"requests of yours hold {MOST_HELD} bytes already; send fewer at once")
        self._of_all[self.sender] += size
        self._size += size

    def release(self) -> None:
        """Count the request's bytes no more."""
        self._of_all[self.sender] -= self._size
        if not self._of_all[self.sender]:
            del self._of_all[self.sender]


class BodyPace:
    """When the next large body of each sender may be parsed, by the event loop's clock."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    async def wait(self, sender: str, size: int) -> None:
        """Wait for the turn of a body."""
        if size <= SMALL_BODY:
            return
        now = asyncio.get_running_loop().time()
        self._next = {one: at for one, at in self._next.items() if at > now}
        turn = self._next.get(sender, now)
        self._next[sender] = turn + size / BODY_RATE
        await asyncio.sleep(turn - now)


class _Room:
    """The room of one person, and the number of requests that want it."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(EACH_AT_ONCE)
        self.asked = 0


class _Incoming:
    """The messages of a request. After its body, the next one arrives when the client disconnects."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.ended = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self.ended = not message.get("more_body", False)
        return message


@contextlib.asynccontextmanager
async def _watched(limit: asyncio.Timeout, receive: Receive | None) -> AsyncIterator[None]:
    """Let a wait end at once if its client disconnects: what nobody waits for counts against nobody."""

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


async def _discard(incoming: _Incoming, most: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_TIMEOUT):
            while most > 0 and not incoming.ended:
                most -= len((await incoming()).get("body", b""))


def _once(call: Callable[[], None]) -> Callable[[], None]:
    calls = [call]

    def called() -> None:
        if calls:
            calls.pop()()

    return called
