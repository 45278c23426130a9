"""Calls of a batch system's web service: credentials come from files, every answer has limits of size and
time."""

import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
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
"""Time limits in s for connecting, and without a byte."""

LONGEST_CALL = 180.0
"""Time limit in s for a whole answer."""

LARGEST_ANSWER = 32 << 20
LARGEST_TOKEN = 65_536
LOOPBACK = ("localhost", "127.0.0.1", "::1")


GATEWAYS = (502, 503, 504)
"""Statuses of gateways that gave up: the service behind them may have the request."""


class AnswerLost(OSError):
    """No answer came, but the request may have arrived and taken effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Files of credentials. Every call reads them, so they can be renewed at any time.

    ``certificate_file`` is a client's certificate or a proxy; it includes the key unless ``key_file`` names
    one. ``token_file`` holds a bearer token. ``ca_path`` is a file, or a folder with hashed names, of trusted
    authorities that replace the system's.
    """

    certificate_file: str = ""
    key_file: str = ""
    token_file: str = ""
    ca_path: str = ""

    def headers(self) -> dict[str, str]:
        """Return the header that carries the token. Raises OSError if its file cannot be read."""
        return {"Authorization": f"Bearer {self.token()}"} if self.token_file else {}

    def token(self) -> str:
        """Return the token. Raises OSError if its file cannot be read or holds none."""
        with Path(self.token_file).open(encoding="ascii", errors="replace") as file:
            token = file.read(LARGEST_TOKEN).strip()
        if not token.isprintable() or not token.isascii() or not token:
            raise OSError(f"{self.token_file} holds no token: it is to be one line of text")
        return token

    def version(self) -> tuple[int, ...]:
        """Return a value that changes when a certificate is renewed.

        Raises OSError if a file cannot be read.
        """
        files = (self.certificate_file, self.key_file, self.ca_path)
        return tuple(Path(file).stat().st_mtime_ns for file in files if file)


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """An answer: its status, reason and body."""

    status: int
    reason: str
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON, None if it is empty. Raises OSError if it is not JSON."""
        try:
            return json.loads(self.body) if self.body.strip() else None
        except (ValueError, RecursionError) as error:
            raise OSError(f"the answer is no JSON: {error}") from None


class WebService:
    """The calls below one URL.

    Raises ValueError if the URL is not a web server's, or would send credentials unencrypted.
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
        self._close: Callable[[], object] = lambda: None

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
        """Make a call. Repeat it if a kept connection broke and repeating is safe.

        Raises AnswerLost if the call may have arrived, and OSError if it did not.
        """
        fields = dict(headers or {}) | ({"Content-Type": content_type} if content_type else {})
        try:
            return self._call(method, path, body, fields, query)
        except AnswerLost:
            if not repeatable:
                raise
        return self._call(method, path, body, fields, query)

    def save(self, path: str, query: Mapping[str, str], target: IO[bytes]) -> WebAnswer | None:
        """Append the missing bytes of a download to a file. Return the answer if it has none of them.

        Raises OSError, also if the answer breaks off. The file keeps the bytes so far, and the next call
        continues after them.
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
        label = f"{method} {self._url}/{path}"
        try:
            with session.request(
                method,
                f"{self._url}/{path}",
                params=query,
                data=body,
                headers=plain | self._credentials.headers() | dict(headers),
                stream=True,
                # A redirection would send the token to another server.
                allow_redirects=False,
                timeout=TIMEOUTS,
            ) as answer:
                yield answer
        except (requests.RequestException, HTTPError) as error:
            if _unsent(error):
                raise OSError(f"{label}: cannot be reached: {_cause(error)}") from None
            raise AnswerLost(f"{label}: no answer: {_cause(error)}") from None

    def _open(self) -> requests.Session:
        """Return the session with its connections. After a renewed certificate it is a new one."""
        version = self._credentials.version()
        with self._lock:
            if self._session is None or version != self._known:
                self._close()
                self._session, self._known = self._new_session(), version
                self._close = weakref.finalize(self, self._session.close)
            return self._session

    def _new_session(self) -> requests.Session:
        session, files = requests.Session(), self._credentials
        # Neither ~/.netrc nor a cookie may change who calls.
        session.auth = lambda request: request
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        if files.certificate_file:
            pair = files.certificate_file, files.key_file
            session.cert = pair if files.key_file else files.certificate_file
        if files.ca_path:
            session.verify = files.ca_path
            # Otherwise REQUESTS_CA_BUNDLE would take precedence.
            session.trust_env = False
        return session


def _body(answer: requests.Response, until: float) -> bytes:
    """Return the body, within the limits of time and size."""
    parts, size = [], 0
    # read1 returns the bytes that have arrived, so the time limit also holds when they trickle in.
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


def _cause(error: BaseException) -> str:
    """Return the innermost cause, without the exceptions wrapped around it."""
    cause = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
    cause = getattr(cause, "reason", cause)
    return f"{cause or error}"[:300] or type(error).__name__
