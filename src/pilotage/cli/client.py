"""A client of the server. It sends and returns plain documents; each fault is a :class:`CommandFailure`."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import httpx

from pilotage.client.authorization import TokenAuthorization
from pilotage.settings import Settings

from .configuration import settings as current
from .errors import BadInput, CommandFailure, Unreachable

if TYPE_CHECKING:
    from ssl import SSLContext

Value = str | int | float | Sequence[str]
"""A parameter of a request; a sequence repeats it."""

PREFIX = "/api/v1"
PATIENCE = 60.0
"""Time limit of an answer in s."""

HEALTH_PATIENCE = 10.0
"""The same for the question whether the server can work, in s."""

TRIES = 3
"""How often a request with an idempotency key is sent if its answer is lost."""


class Client:
    """The server of the settings, called with its token."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or current()
        self._http = httpx.Client(
            base_url=self._settings.url + PREFIX,
            auth=TokenAuthorization(self._settings),
            timeout=httpx.Timeout(PATIENCE, connect=10),
            # A proxy of the environment cannot reach this machine's own addresses.
            trust_env=not self._settings.url.split("//")[1].startswith(("127.", "localhost", "[::1]")),
            # Plain HTTP verifies nothing, and reading the certificates takes 46 ms.
            verify=urlsplit(self._settings.url).scheme != "http" and _authorities(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, **parameters: Value | None) -> Any:
        """Return the document at a path. Parameters that are None are left out."""
        return self.send("GET", path, parameters={k: v for k, v in parameters.items() if v is not None})

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        parameters: Mapping[str, Value] | None = None,
        also: tuple[int, ...] = (),
        key: str = "",
    ) -> Any:
        """Return the answer's document. A status in ``also`` is an answer too, not a failure.

        With an idempotency ``key``, send a request again a few times if its answer is lost.
        """
        headers = {"Idempotency-Key": key} if key else {}
        begun = time.monotonic()
        try:
            # Without a key, a second request might do its work twice.
            for left in reversed(range(TRIES if key else 1)):
                try:
                    response = self._http.request(
                        method, path, json=body, params=dict(parameters or {}), headers=headers
                    )
                    break
                except (httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout):
                    if not left or time.monotonic() - begun >= PATIENCE:
                        raise
        except httpx.HTTPError as error:
            raise Unreachable(self._silence(error)) from error
        if response.is_success or response.status_code in also:
            return self._document(response)
        raise self._failure(response)

    def _silence(self, error: httpx.HTTPError) -> str:
        """Say why no answer came: a server that lives may know."""
        told = f"no answer from {self._settings.url}: {str(error) or type(error).__name__}"
        if isinstance(error, httpx.ReadTimeout):
            with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
                ready = self._http.get("/health/ready", timeout=HEALTH_PATIENCE).json()
                problems = "; ".join(ready["problems"]) or "it can work, and is busy"
                return f"{told} within {PATIENCE:.0f} s; the server says: {problems}"
        return f"{told}; start it with `pilotage up`, or set PILOTAGE_URL"

    @contextmanager
    def content(self, path: str, offset: int, **parameters: str) -> Iterator[Iterator[bytes]]:
        """Yield the bytes at a path, from an offset on. Raises Unreachable, also if the answer breaks off."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            with self._http.stream("GET", path, params=dict(parameters or {}), headers=headers) as response:
                if not response.is_success:
                    # A stream's body is not read by itself, and it holds the error message.
                    response.read()
                    raise self._failure(response)
                yield response.iter_bytes(1 << 20)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{self._settings.url} broke off: {reason}") from error

    def _document(self, response: httpx.Response) -> Any:
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise self._stranger() from error

    def _failure(self, response: httpx.Response) -> CommandFailure:
        """Return the fault that the server reports."""
        try:
            detail = response.json()["detail"]
        except (ValueError, KeyError, TypeError, RecursionError):
            # An answer that is not in our form is not ours. From 500 on it may come from a proxy whose server
            # is down.
            return self._stranger() if response.status_code < 500 else CommandFailure(self._broken(response))
        if isinstance(detail, list):
            detail = "; ".join(f"{fault['field']}: {fault['message']}" for fault in detail)
        match response.status_code:
            case 401:
                return CommandFailure(f"the server does not know you: {detail}; set {self._token_source}")
            case 400 | 413 | 422:
                return BadInput(str(detail))
            case code if code >= 500:
                return CommandFailure(f"{self._broken(response)}: {detail}")
        return CommandFailure(str(detail))

    @property
    def _token_source(self) -> str:
        return f"PILOTAGE_TOKEN or {self._settings.home / 'token'}"

    def _broken(self, response: httpx.Response) -> str:
        return f"the server failed with {response.status_code} {response.reason_phrase}"

    def _stranger(self) -> Unreachable:
        return Unreachable(
            f"what answers at {self._settings.url} is not Pilotage; set PILOTAGE_URL to the server's address"
        )


def _authorities() -> "SSLContext":
    """Return the trusted authorities, also for this machine's own addresses: those of SSL_CERT_FILE if it
    is set."""
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        raise BadInput(f"SSL_CERT_FILE: {os.environ.get('SSL_CERT_FILE', '')!r}: {error}") from error
