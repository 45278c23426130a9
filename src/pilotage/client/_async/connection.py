"""One server, and requests to it. Each failure is a ``ClientError``."""

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pilotage.client.answers import LARGEST_ANSWER, most_bytes, read_answer
from pilotage.client.errors import (
    PREFIX,
    BadAnswer,
    ClientError,
    NotPilotage,
    NotSignedIn,
    OtherVersion,
    Refused,
    Unreachable,
    error_of,
    foreign_error,
)
from pilotage.client.listeners import Address, stranger_at
from pilotage.client.waiting import async_sleep
from pilotage.settings import Settings

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx

Value = str | int | float | Sequence[str]
"""A parameter of a request; a sequence repeats it."""

PATIENCE = 60.0
"""Time limit of an answer in s."""

UPLOAD_PATIENCE = 600.0
"""Time limit of an answer to the bytes of a file in s."""

HEALTH_PATIENCE = 10.0
"""The same for the question whether the server can work, in s."""

LARGEST_HEALTH = 1 << 20
"""Most bytes of an answer about the server's health."""

LONGEST_VERSION = 40
"""Most characters that are shown of a server's version."""

CHUNK = 1 << 20
"""Bytes of a chunk of content."""

TRIES = 3
"""How often a request that may be repeated is sent if its answer is lost."""

SERVICE_UNAVAILABLE = 503
PROXY_FAULTS = (429, 502, SERVICE_UNAVAILABLE, 504)
"""A proxy's answers while it refuses requests or cannot reach the server. They do not count as answers."""

PAUSE = 0.5
"""Seconds before a request is repeated after a proxy's fault; twice as many before the next time."""

LONGEST_PAUSE = 10.0
"""Most seconds before a request is repeated, even if the server asks for more."""

_UNKNOWN_ROUTE = ("Not Found", "Method Not Allowed")
"""The server's answers to an address that it does not have."""


class AsyncServerConnection:
    """The server of the settings, called with its token."""

    def __init__(self, settings: Settings) -> None:
        # Loading it takes longer than loading all of the client.
        import httpx

        from pilotage.client.authorization import TokenAuthorization

        self.settings = settings
        self._http = httpx.AsyncClient(
            base_url=settings.url + PREFIX,
            auth=TokenAuthorization(settings),
            # In a form that any header can have.
            headers={"Pilotage-Why": quote(settings.why)} if settings.why else {},
            timeout=httpx.Timeout(PATIENCE, connect=10),
            # A proxy of the environment cannot reach this machine's own addresses.
            trust_env=not settings.url.split("//")[1].startswith(("127.", "localhost", "[::1]")),
            event_hooks={"request": [] if settings.url_given else [self._watch]},
            # Plain HTTP verifies nothing, and reading the certificates takes 46 ms.
            verify=urlsplit(settings.url).scheme != "http" and _authorities(),
        )

    async def _watch(self, request: "httpx.Request") -> None:
        """Look at each new connection before the token goes through it."""
        request.extensions["trace"] = self._refuse_stranger

    async def _refuse_stranger(self, event: str, details: Mapping[str, Any]) -> None:
        """Close a connection to another user's port. Raises ``NotPilotage``.

        The home has the port of its server. After that has ended, any user of this machine may listen there.
        """
        if event != "connection.connect_tcp.complete":
            return
        stream = details["return_value"]
        if reason := stranger_at(self.settings, *_ends(stream)):
            await stream.aclose()
            raise NotPilotage(reason)

    async def close(self) -> None:
        """Close open connections."""
        await self._http.aclose()

    async def send(
        self,
        method: str,
        template: str,
        values: Mapping[str, int | str] | None = None,
        *,
        query: Mapping[str, Value | bool | None] | None = None,
        body: object = None,
        statuses: tuple[int, ...] = (),
        key: str = "",
    ) -> Any:
        """Return the answer's document. A status in ``also`` is an answer too, not a failure.

        ``values`` fill the template of the address. Parameters that are None or False are left out. Requests
        that only read, and those with an idempotency ``key``, are sent again a few times if their answer is
        lost, or a proxy reached no server; and for ``PATIENCE`` s if the server asks for that, as it does
        while its database is away. All others might do their work twice.
        """
        import httpx

        path = _fill(template, values or {})
        try:
            request = self._http.build_request(
                method,
                path,
                json=body,
                params=_parameters(query or {}),
                headers={"Idempotency-Key": key} if key else {},
            )
        except ValueError as error:
            raise Refused(f"the request is no JSON: {error}; give finite numbers") from error
        try:
            tries = TRIES if key or method == "GET" else 1
            response = await self._answer(request, most_bytes(template), tries, statuses)
        except httpx.HTTPError as error:
            raise Unreachable(await self._silence(error)) from error
        if response.status_code in statuses or response.is_success:
            return self._document(response)
        raise await self._failure(response)

    async def _answer(
        self, request: "httpx.Request", limit: int, tries: int, statuses: tuple[int, ...]
    ) -> "httpx.Response":
        """Return the answer to a request, which is sent up to ``tries`` times within ``PATIENCE``."""
        import httpx

        lost = (httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout)
        begun, pause, is_repeatable = time.monotonic(), PAUSE, tries > 1
        while True:
            tries = max(0, tries - 1)
            try:
                response = await self._read(request, limit)
            except lost:
                if not tries or time.monotonic() - begun >= PATIENCE:
                    raise
            else:
                is_fault = response.status_code in PROXY_FAULTS and response.status_code not in statuses
                request_pause = _seconds_to_wait(response) if is_repeatable else 0.0
                # A server without its database asks for patience. A proxy's 429 may be meant for ever.
                waits = tries or (request_pause and response.status_code == SERVICE_UNAVAILABLE)
                if not is_fault or not waits or time.monotonic() - begun >= PATIENCE:
                    return response
                await async_sleep(request_pause or pause)
                pause *= 2

    async def _read(self, request: "httpx.Request", limit: int) -> "httpx.Response":
        """Send a request, and read its answer. Raises ``BadAnswer`` at more than so many bytes."""
        response = await self._http.send(request, stream=True)
        try:
            return await _whole(response, limit)
        finally:
            await response.aclose()

    @asynccontextmanager
    async def content(
        self,
        template: str,
        offset: int = 0,
        query: Mapping[str, Value | bool | None] | None = None,
        headers: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
        values: Mapping[str, int | str] | None = None,
    ) -> AsyncIterator["httpx.Response"]:
        """Yield the answer at a path, from an offset on, unread. Each part may take ``patience`` s.

        Raises ``Unreachable``, also if the answer breaks off while it is read.
        """
        import httpx

        all_headers = dict(headers or {}) | ({"Range": f"bytes={offset}-"} if offset else {})
        try:
            async with self._http.stream(
                "GET",
                _fill(template, values or {}),
                params=_parameters(query or {}),
                headers=all_headers,
                timeout=httpx.Timeout(patience, connect=10),
            ) as response:
                if not response.is_success:
                    # A stream's body is not read by itself, and it holds the error message.
                    raise await self._failure(await _whole(response, LARGEST_ANSWER))
                yield response
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{self.settings.url} broke off: {reason}") from error

    async def upload(
        self,
        template: str,
        query: Mapping[str, Value | bool | None],
        content: AsyncIterator[bytes],
        size: int,
    ) -> Any:
        """Send the bytes of a file, and return the answer's document. Raises ``Unreachable``."""
        import httpx

        request = self._http.build_request(
            "PUT",
            template,
            params=_parameters(query),
            content=content,
            headers={"Content-Length": str(size)},
            # The last bytes may have to reach a slow storage before an answer comes.
            timeout=httpx.Timeout(PATIENCE, connect=10, read=UPLOAD_PATIENCE),
        )
        try:
            response = await self._read(request, LARGEST_ANSWER)
        except httpx.HTTPError as error:
            raise Unreachable(await self._silence(error)) from error
        if not response.is_success:
            raise await self._failure(response)
        return self._document(response)

    async def _silence(self, error: "httpx.HTTPError") -> str:
        """Say why no answer came: a server that lives may know."""
        import httpx

        sentence = f"no answer from {self.settings.url}: {str(error) or type(error).__name__}"
        if isinstance(error, httpx.ReadTimeout):
            with suppress(httpx.HTTPError, ValueError, TypeError, RecursionError, ClientError):
                ready = read_answer((await self._health("/health/ready")).content)
                problems = "; ".join(ready["problems"]) or "it can work, and is busy"
                return f"{sentence} within {PATIENCE:.0f} s; the server says: {problems}"
        return f"{sentence}; start it with `pilotage up`, or set PILOTAGE_URL"

    def _document(self, response: "httpx.Response") -> Any:
        if response.status_code == 204:
            return None
        try:
            return read_answer(response.content)
        except (ValueError, RecursionError) as error:
            raise self._foreign(response) from error

    async def _failure(self, response: "httpx.Response") -> ClientError:
        """Return the error that the server reports."""
        answer: Any = None
        with suppress(ValueError, RecursionError):
            answer = read_answer(response.content)
        error = error_of(response.status_code, response.reason_phrase, answer)
        if error is None:
            return self._foreign(response)
        if isinstance(error, NotSignedIn):
            return NotSignedIn(
                f"the server at {self.settings.url} does not know you: {error}; {self._token_remedy()}"
            )
        if response.status_code in (404, 405) and str(error) in _UNKNOWN_ROUTE:
            return await self._unknown(response.request)
        return error

    def _token_remedy(self) -> str:
        usual, place = self.settings.home / "token", self.settings.token_place
        if place in ("", "PILOTAGE_TOKEN", str(usual)):
            return f"set PILOTAGE_TOKEN or {usual}"
        return f"your token is that of {place}"

    async def _unknown(self, request: "httpx.Request") -> ClientError:
        """Return the error for a request that the server does not have, with both versions."""
        operation = f"{request.method} {request.url.path}"
        versions = await self._versions()
        return OtherVersion(f"the server at {self.settings.url} has no {operation}: it {versions}")

    async def with_versions(self, error: BadAnswer) -> BadAnswer:
        """Return the error for an answer that the client does not understand, with both versions."""
        versions = await self._versions()
        bad_answer = BadAnswer(f"{error}: the server at {self.settings.url} {versions}")
        bad_answer.names_versions = True
        return bad_answer

    async def _versions(self) -> str:
        from importlib.metadata import version

        import httpx

        server_version = "an unknown version"
        with suppress(httpx.HTTPError, ValueError, TypeError, RecursionError, ClientError):
            live = read_answer((await self._health("/health/live")).content)
            server_version = f"version {str(live['version'])[:LONGEST_VERSION]}"
        return f"has {server_version}, this client has version {version('pilotage')}"

    async def _health(self, path: str) -> "httpx.Response":
        return await self._read(
            self._http.build_request("GET", path, timeout=HEALTH_PATIENCE), LARGEST_HEALTH
        )

    def _foreign(self, response: "httpx.Response") -> ClientError:
        location = response.headers.get("Location", "")
        return foreign_error(response.status_code, response.reason_phrase, location, self.settings.url)


def _ends(stream: Any) -> tuple[Address, Address]:
    """Return the addresses of the server and of the client of a connection."""
    return stream.get_extra_info("server_addr")[:2], stream.get_extra_info("client_addr")[:2]


def _fill(template: str, values: Mapping[str, int | str]) -> str:
    return template.format(**{name: quote(str(value), safe="") for name, value in values.items()})


def _parameters(query: Mapping[str, Value | bool | None]) -> dict[str, Any]:
    values = {name: value for name, value in query.items() if value is not None and value is not False}
    return {name: "true" if value is True else value for name, value in values.items()}


def _seconds_to_wait(response: "httpx.Response") -> float:
    """Return after how many s a server asks to repeat a request; 0 if it does not say, or not sensibly."""
    seconds = response.headers.get("Retry-After", "")
    return min(float(seconds), LONGEST_PAUSE) if seconds.isascii() and seconds.isdecimal() else 0.0


async def _whole(response: "httpx.Response", limit: int) -> "httpx.Response":
    """Return an answer with its content. Raises ``BadAnswer`` at more than so many bytes."""
    import httpx

    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > limit:
            raise BadAnswer(f"the server's answer has more than {limit >> 10} KiB")
    # The body is decoded by now: a header for its encoding would decode it again.
    names = ("location", "retry-after")
    return httpx.Response(
        response.status_code,
        headers={name: value for name, value in response.headers.items() if name in names},
        content=bytes(content),
        request=response.request,
        extensions=response.extensions,
    )


def _authorities() -> "SSLContext":
    """Return the trusted authorities, also for this machine's addresses; SSL_CERT_FILE may name them."""
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:
        raise Refused(f"SSL_CERT_FILE: {os.environ.get('SSL_CERT_FILE', '')!r}: {error}") from error
