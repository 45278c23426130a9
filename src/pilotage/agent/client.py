"""The client for a pilot's server. It sends the token in a header and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from socket import gaierror
from typing import Any, TypeVar

from . import VERSION, relay, wire
from .machine import now
from .parsing import WireError, parse, serialise
from .web import Web, opener, said

log = logging.getLogger(__name__)
T = TypeVar("T")
H = TypeVar("H", wire.MatchAnswer, wire.Stops)
TIMEOUT = 20.0
"""Seconds without an answer after which the server counts as unreachable."""


class UnreachableError(Exception):
    """No usable answer came. ``heard`` is true if the server may have acted on the call all the same."""

    def __init__(self, message: str, *, heard: bool) -> None:
        super().__init__(message)
        self.heard = heard


class GivenUpError(Exception):
    """The server has given up this pilot: it must kill every payload and exit."""


class RefusedError(Exception):
    """The server refuses a request as wrong."""


class Pause:
    """Exponential backoff: each failure doubles the pause, with some jitter, up to ``longest`` s."""

    def __init__(self, *, longest: float, first: float = 0.25) -> None:
        self.until = 0.0
        self.longest = longest
        self._first = self._next = first

    def failed(self) -> float:
        """Start a pause and return its length in s."""
        # Thousands of pilots lose their server at the same moment. Jitter spreads their return.
        pause = self._next * random.uniform(0.75, 1.25)
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

    def __init__(self, url: str, token: str, timeout: float = TIMEOUT, identity: str = "") -> None:
        self._urls = [url] if url.startswith(relay.FILE) else url.split(",")
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
        self._timeout = timeout
        self._opener = relay.opener(identity) if identity else opener()
        self._thread = ThreadPoolExecutor(1, "client")

    async def enrol(self) -> None:
        """Exchange the token that started this pilot for a token of its own.

        Nobody else can do so afterwards.
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
        """Let each later call say which of the server's answers its pilot knows."""
        self._heard = max(self._heard, answer.time)
        self._headers[wire.HEARD] = repr(self._heard)
        return answer

    def access(self, wanted: wire.FileRequest) -> wire.Access:
        """Ask for an address of one file. Blocks. Raises OSError."""
        try:
            return parse(wire.Access, self._request("POST", "access", serialise(wanted)))
        except (UnreachableError, GivenUpError, RefusedError, WireError) as error:
            raise OSError(f"no address of {wanted.name}: {error}") from error

    def content(self, wanted: wire.FileRequest) -> tuple[Web, str]:
        """Return the client and the address for a file that the server hands on."""
        names = urllib.parse.urlencode({"name": wanted.name, "source": wanted.source})
        url = f"{self._address()}/content/{wanted.job}/{wanted.attempt}?{names}"
        return Web({"Authorization": self._headers["Authorization"]}, self._opener), url

    async def end(self, reason: wire.Reason) -> None:
        """Tell the server that this pilot ends."""
        await self._send("POST", "end", reason)

    async def _call(self, method: str, path: str, body: Any, kind: type[T]) -> T:
        text = await self._send(method, path, body)
        try:
            return parse(kind, text)
        except WireError as error:
            raise UnreachableError(f"{method} {path}: {error}", heard=True) from error

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

    def _address(self) -> str:
        return f"{relay.address(self._urls[0]).rstrip('/')}/api/v1/pilot"

    def _go_on(self, url: str) -> None:
        """Let the next call go to another server, unless another thread has seen to it."""
        first, *others = self._urls
        if others and url.startswith(first):
            self._urls = [*others, first]
            log.warning("%s does not answer; the next call goes to %s", first, others[0])

    def _request(self, method: str, path: str, content: bytes | None) -> bytes:
        try:
            url = f"{self._address()}/{path}"
        except OSError as error:
            raise UnreachableError(f"{method} {path}: {error!r}", heard=False) from error
        request = urllib.request.Request(url, content, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                text: bytes = answer.read()
                return text
        except urllib.error.HTTPError as error:
            raise _error_for(f"{method} {path}: {error.code}", error) from error
        except (OSError, HTTPException) as error:
            self._go_on(url)
            # Without a connection the server heard nothing. After any later error it may have carried out the
            # call.
            refused = isinstance(getattr(error, "reason", error), (ConnectionRefusedError, gaierror))
            raise UnreachableError(f"{method} {path}: {error!r}", heard=not refused) from error


def _error_for(what: str, error: urllib.error.HTTPError) -> Exception:
    """Return our exception for the server's error."""
    detail = said(error)
    # The server answers 410 to a pilot that it has ended, and 401 or 403 once it has revoked the token.
    if error.code in (401, 403, 410):
        return GivenUpError(f"{what} {detail}")
    if error.code >= 500 or error.code in (408, 425, 429):
        return UnreachableError(f"{what} {detail}", heard=True)
    return RefusedError(f"{what} {detail}")
