"""Calls of a batch system's web service: credentials from files, every answer bounded in size and time."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError, NewConnectionError

from pilotage.model.values.urls import without_password

TIMEOUTS = (20.0, 60.0)
"""Seconds to connect, and without a byte, before a service is given up."""

LONGEST_CALL = 180.0
"""Seconds that one answer may take in all."""

LARGEST_ANSWER = 32 << 20
LARGEST_TOKEN = 65_536
LOOPBACK = ("localhost", "127.0.0.1", "::1")


GATEWAYS = (502, 503, 504)
"""Answers of gateways that gave up: the service behind them may have the request."""


class AnswerLost(OSError):
    """The request may have arrived, and no answer came: nobody knows what was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Files of credentials, read anew for every call, so that one who renews them need tell nobody.

    ``certificate_file`` is a client's certificate, or a proxy, with its key unless ``key_file`` has that;
    ``token_file`` holds a bearer token; ``ca_path``, a file or a folder with hashed names, the authorities
    that are trusted instead of the system's.
    """

    certificate_file: str = ""
    key_file: str = ""
    token_file: str = ""
    ca_path: str = ""

    def headers(self) -> dict[str, str]:
        """The header that carries the token. Raises OSError where its file cannot be read."""
        return {"Authorization": f"Bearer {self.token()}"} if self.token_file else {}

    def token(self) -> str:
        """The token. Raises OSError where its file cannot be read, or holds none."""
        with Path(self.token_file).open(encoding="ascii", errors="replace") as file:
            token = file.read(LARGEST_TOKEN).strip()
        if not token.isprintable() or not token.isascii() or not token:
            raise OSError(f"{self.token_file} holds no token: it is to be one line of text")
        return token

    def version(self) -> tuple[int, ...]:
        """Return what changes when a certificate is renewed. Raises OSError where a file cannot be read."""
        files = (self.certificate_file, self.key_file, self.ca_path)
        return tuple(Path(file).stat().st_mtime_ns for file in files if file)


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """Status, reason and body of an answer."""

    status: int
    reason: str
    body: bytes

    def json(self) -> Any:
        """The body as JSON, None where it is empty. Raises OSError where it is none."""
        try:
            return json.loads(self.body) if self.body.strip() else None
        except (ValueError, RecursionError) as error:
            raise OSError(f"the answer is no JSON: {error}") from None


class WebService:
    """The calls below one URL.

    Raises ValueError where the URL is none of a web server, or would send credentials unencrypted.
    """

    def __init__(self, url: str, credentials: Credentials) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.username:
            raise ValueError(f"{without_password(url)!r} is not a URL like https://host:443/path")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ValueError(f"{without_password(url)!r} would send credentials unencrypted; give https://")
        self._url = url.rstrip("/")
        self._credentials = credentials
        self._lock = threading.Lock()
        self._known: tuple[int, ...] = ()
        self._session: requests.Session | None = None

    def call(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = "",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> WebAnswer:
        """Make a call; one that may be repeated is, where a kept connection broke.

        Raises AnswerLost where nobody knows whether it arrived, and OSError where it did not.
        """
        told = dict(headers or {}) | ({"Content-Type": content_type} if content_type else {})
        try:
            return self._call(method, path, body, told, query)
        except AnswerLost:
            if not repeatable:
                raise
        return self._call(method, path, body, told, query)

    def save(self, path: str, query: Mapping[str, str], target: IO[bytes]) -> WebAnswer | None:
        """Append to a file what it lacks of the bytes there; return the answer that has none of them.

        Raises OSError, also where the answer breaks off: what came is in the file, and saving goes on there.
        """
        offset = target.tell()
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        with self._answered("GET", path, b"", headers, query) as answer:
            if answer.status_code >= 300:
                until = time.monotonic() + LONGEST_CALL
                return WebAnswer(answer.status_code, answer.reason or "", _body(answer, until))
            while part := answer.raw.read1(1 << 20):
                target.write(part)
        return None

    def _call(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], query: Mapping[str, str] | None
    ) -> WebAnswer:
        until = time.monotonic() + LONGEST_CALL
        with self._answered(method, path, body, headers, query) as answer:
            return WebAnswer(answer.status_code, answer.reason or "", _body(answer, until))

    @contextmanager
    def _answered(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], query: Mapping[str, str] | None
    ) -> Iterator[requests.Response]:
        plain = {"Accept": "application/json", "Accept-Encoding": "identity"}
        session = self._open()
        what = f"{method} {self._url}/{path}"
        try:
            with session.request(
                method,
                f"{self._url}/{path}",
                params=query,
                data=body,
                headers=plain | self._credentials.headers() | dict(headers),
                stream=True,
                # A redirection would carry the token to another server.
                allow_redirects=False,
                timeout=TIMEOUTS,
            ) as answer:
                yield answer
        except (requests.RequestException, HTTPError) as error:
            if _unsent(error):
                raise OSError(f"{what}: cannot be reached: {_why(error)}") from None
            raise AnswerLost(f"{what}: no answer: {_why(error)}") from None

    def _open(self) -> requests.Session:
        """The session with its connections; a new one when the certificate was renewed."""
        version = self._credentials.version()
        with self._lock:
            if self._session is None or version != self._known:
                self._session, self._known = self._made(), version
            return self._session

    def _made(self) -> requests.Session:
        made, files = requests.Session(), self._credentials
        # Neither ~/.netrc nor a cookie says who calls.
        made.auth = lambda request: request
        made.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        if files.certificate_file:
            made.cert = (files.certificate_file, files.key_file) if files.key_file else files.certificate_file
        if files.ca_path:
            made.verify = files.ca_path
            # Else REQUESTS_CA_BUNDLE would count instead.
            made.trust_env = False
        return made


def _body(answer: requests.Response, until: float) -> bytes:
    """The body, as far as it comes in time and in size."""
    parts, size = [], 0
    # read1 returns what has come: the time is looked at also where bytes trickle.
    while part := answer.raw.read1(65_536):
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            raise requests.RequestException(f"the answer is longer than {LARGEST_ANSWER >> 20} MiB")
        if time.monotonic() > until:
            raise requests.RequestException(f"the answer takes longer than {LONGEST_CALL:g} s")
    return b"".join(parts)


def _unsent(error: BaseException) -> bool:
    """Return whether a failed request surely never reached the service."""
    if isinstance(error, requests.ConnectTimeout | requests.exceptions.SSLError):
        return True
    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", cause), NewConnectionError)


def _why(error: BaseException) -> str:
    """The innermost reason, without the tower of those that passed it on."""
    cause = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
    cause = getattr(cause, "reason", cause)
    return f"{cause or error}"[:300] or type(error).__name__
