"""The client for a pilot's server. It sends the token in a header and nowhere else."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import re
import secrets
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPResponse
from socket import gaierror
from typing import IO, Any, TypeVar

from . import VERSION, relay, wire
from .files.spool_wire import CourierOrder, SealedManifest
from .files.web import Web, message_of, opener
from .machine import now
from .parsing import WireError, parse, serialise

log = logging.getLogger(__name__)
T = TypeVar("T")
H = TypeVar("H", wire.MatchAnswer, wire.Stops)
TIMEOUT, SHORT_TIMEOUT = 20.0, 8.0
"""Seconds without an answer after which the server counts as unreachable; the second where there are others.
"""
MOST_ASKED_FOR = 600.0
"""Longest pause in s that a server may ask for."""
AWAY = frozenset({408, 425, 429, 503, 504})
"""Statuses of a server that cannot answer now, and of proxies before it."""
STORAGE_FAILED = 502
"""The status of a server that could not hand on a file because its storage failed."""


class UnreachableError(Exception):
    """No usable answer came. ``may_have_acted`` is true if the server may have carried out the call.

    The next call should come after ``pause`` s or later, if the server asked for that; 0: it did not.
    """

    def __init__(self, message: str, *, may_have_acted: bool, pause: float = 0.0) -> None:
        super().__init__(message)
        self.may_have_acted, self.pause = may_have_acted, pause


class GivenUpError(Exception):
    """The server has given up this pilot: it must kill every payload and exit."""


class RefusedError(Exception):
    """The server refuses a request as wrong."""


class Pause:
    """Exponential backoff: each failure doubles the pause, up to ``longest`` s, less some jitter."""

    def __init__(self, *, longest: float, first: float = 0.25) -> None:
        self.until = 0.0
        self.longest = longest
        self._first = self._next = first

    def failed(self, least: float = 0.0) -> float:
        """Start a pause of ``least`` s or more, and return its length in s."""
        # Thousands of pilots lose their server at the same moment. Jitter spreads their return.
        jitter = random.uniform(0.5, 1.0)
        pause = max(min(self._next, self.longest) * jitter, min(least, MOST_ASKED_FOR) * (2 - jitter))
        self.until = now() + pause
        self._next = min(2 * self._next, self.longest)
        return pause

    def succeeded(self) -> None:
        """End the pause; the next one is short again."""
        self.until, self._next = 0.0, self._first


class PilotClient:
    """A pilot's calls to its server. Every call raises UnreachableError, GivenUpError or RefusedError.

    One thread makes the calls in order, so nothing else in the agent waits for them. ``url`` may name several
    servers of one store, separated by commas: where one does not answer, the next call goes to the next.
    """

    def __init__(self, url: str, token: str, timeout: float = 0.0, identity: str = "") -> None:
        self._urls = re.split(",(?=[a-z]+://)", url)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            # In a header, because servers of other versions refuse fields that they do not know.
            "User-Agent": f"pilotage-agent/{VERSION}",
            # Also in the first calls, which may arrive late or twice.
            wire.HEARD: "0.0",
        }
        self._heard = 0.0
        self._nonce = secrets.token_hex(32)
        self._timeout = timeout or (SHORT_TIMEOUT if self._urls[1:] else TIMEOUT)
        self._opener = relay.opener(identity) if identity else opener()
        self._thread = ThreadPoolExecutor(1, "client")

    async def enrol(self) -> None:
        """Exchange the token that started this pilot for its own token.

        After that, the first token is worthless.
        """
        if self._nonce:
            answer = await self._call("POST", "enrol", wire.Enrolment(self._nonce), wire.Enrolled)
            self._headers["Authorization"] = f"Bearer {answer.token}"
            self._nonce = ""

    async def match(self, offer: wire.Offer) -> wire.MatchAnswer:
        """Ask for jobs that fit the free resources."""
        return self._heard_at(await self._call("POST", "match", offer, wire.MatchAnswer))

    async def payload(self, task: int) -> wire.PayloadFiles:
        """Fetch the payload files of a task."""
        return await self._call("GET", f"payload/{task}", None, wire.PayloadFiles)

    async def specification(self, job: int) -> wire.Specification:
        """Fetch the full description of a job's task."""
        return await self._call("GET", f"specification/{job}", None, wire.Specification)

    async def report(self, reports: wire.Reports) -> wire.Stops:
        """Send reports, and list the attempts that this pilot holds. Return the attempts that must stop."""
        return self._heard_at(await self._call("POST", "report", reports, wire.Stops))

    def _heard_at(self, answer: H) -> H:
        """Add to each later call the time of the newest answer that its pilot knows."""
        self._heard = max(self._heard, answer.time)
        self._headers[wire.HEARD] = repr(self._heard)
        return answer

    @property
    def token_hash(self) -> str:
        """Return the SHA-256 of the pilot's own token."""
        return hashlib.sha256(self._headers["Authorization"].partition(" ")[2].encode()).hexdigest()

    def access(self, request: wire.FileRequest) -> wire.Access:
        """Ask for an address of one file. Blocks. Raises OSError, and UnreachableError."""
        try:
            return parse(wire.Access, self._request("POST", "access", serialise(request)))
        except (UnreachableError, GivenUpError, RefusedError, WireError) as error:
            cause = error.__cause__
            answered = isinstance(cause, urllib.error.HTTPError) and cause.code not in AWAY
            if isinstance(error, UnreachableError) and not answered:
                raise
            raise OSError(f"no address of {request.name}: {error}") from error

    def content(
        self, request: wire.FileRequest, method: str, source: IO[bytes] | None = None
    ) -> HTTPResponse:
        """Read a file that the server hands on, or write all of ``source`` to it. Blocks.

        Raises UnreachableError while the server cannot do it, and HTTPError, with the server's message, if it
        refuses or if the storage failed.
        """
        server = self._urls[0]
        names = urllib.parse.urlencode({"name": request.name, "source": request.source})
        web = Web({"Authorization": self._headers["Authorization"]}, self._opener)

        def ask() -> HTTPResponse:
            url = f"{self._address(server)}/content/{request.job}/{request.attempt}?{names}"
            return web.ask(method, url, source)

        try:
            return answered(ask)
        except UnreachableError as error:
            if not isinstance(error.__cause__, urllib.error.HTTPError):
                self._go_on(server)
            raise

    async def ask_about_results(self, manifest: SealedManifest) -> CourierOrder:
        """Ask what to do with results that another pilot left."""
        return await self._call("POST", "left", manifest, CourierOrder)

    async def delivered(self, job: int, attempt: int) -> None:
        """Tell the server that all outputs of such results are stored."""
        await self._send("POST", f"left/{job}/{attempt}", {})

    async def end(self, reason: wire.Reason) -> None:
        """Tell the server that this pilot ends."""
        await self._send("POST", "end", reason)

    async def _call(self, method: str, path: str, body: Any, kind: type[T]) -> T:
        text = await self._send(method, path, body)
        try:
            return parse(kind, text)
        except WireError as error:
            raise UnreachableError(f"{method} {path}: {error}", may_have_acted=True) from error

    async def _send(self, method: str, path: str, body: Any) -> bytes:
        content = None if body is None else serialise(body)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._request, method, path, content)
        except RefusedError:
            former = None if body is None else serialise(body, wire.ADDED)
            if former == content:
                raise
            return await loop.run_in_executor(self._thread, self._request, method, path, former)

    def _address(self, server: str) -> str:
        return f"{relay.address(server).rstrip('/')}/api/v1/pilot"

    def _go_on(self, unanswered: str) -> None:
        """Let the next call go to another server, unless another thread has done so."""
        first, *rest = self._urls
        if rest and unanswered == first:
            self._urls = [*rest, first]
            log.warning("%s does not answer; the next call goes to %s", first, rest[0])

    def _request(self, method: str, path: str, content: bytes | None) -> bytes:
        server = self._urls[0]
        try:
            url = f"{self._address(server)}/{path}"
        except OSError as error:
            self._go_on(server)
            raise UnreachableError(f"{method} {path}: {error!r}", may_have_acted=False) from error
        request = urllib.request.Request(url, content, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                text: bytes = answer.read()
                return text
        except urllib.error.HTTPError as error:
            raise _error_for(f"{method} {path}: {error.code}", error) from error
        except (OSError, HTTPException) as error:
            self._go_on(server)
            # Without a connection the server heard nothing. After any later error it may have carried out the
            # call.
            refused = isinstance(getattr(error, "reason", error), (ConnectionRefusedError, gaierror))
            raise UnreachableError(f"{method} {path}: {error!r}", may_have_acted=not refused) from error


def answered(ask: Callable[[], HTTPResponse]) -> HTTPResponse:
    """Return a server's answer to a request for a file that it hands on.

    Raises as ``PilotClient.content``.
    """
    try:
        return ask()
    except urllib.error.HTTPError as error:
        # A proxy before the server answers 502 with its own text if the server is away.
        by_server = error.headers.get_content_type() == "application/json"
        error.msg = f"{error.msg} {message_of(error)}".strip()
        if error.code in AWAY or (error.code == STORAGE_FAILED and not by_server):
            raise _unreachable(str(error), error) from error
        raise
    except (OSError, HTTPException) as error:
        raise UnreachableError(repr(error), may_have_acted=True) from error


def _error_for(call: str, error: urllib.error.HTTPError) -> Exception:
    """Return our exception for the server's error."""
    detail = message_of(error)
    # The server answers 410 to a pilot that it has ended, and 401 or 403 once it has revoked the token.
    if error.code in (401, 403, 410):
        return GivenUpError(f"{call} {detail}")
    if error.code >= 500 or error.code in AWAY:
        return _unreachable(f"{call} {detail}", error)
    return RefusedError(f"{call} {detail}")


def _unreachable(message: str, error: urllib.error.HTTPError) -> UnreachableError:
    after = error.headers.get("Retry-After", "")
    return UnreachableError(
        message, may_have_acted=True, pause=float(after) if re.fullmatch("[0-9]{1,6}", after) else 0.0
    )
