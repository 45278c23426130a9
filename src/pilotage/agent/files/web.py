"""Requests to web servers, with bodies of any size."""

from __future__ import annotations

import errno
import io
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import IO, Any, cast

from .web_addresses import is_encoded, may_redirect, server_of, without_query

BLOCK = 4 << 20
TIMEOUT = 300.0
"""Seconds without a byte after which a server counts as dead."""
CONNECT_TIMEOUT = 5.0
"""Seconds that a connection may take."""
MOST_REDIRECTS = 5
GONE = (404, 410)
AUTOMATIC = 47
"""Lets zlib tell gzip from deflate."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Return redirections as plain answers: the caller decides which headers follow them."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _QuickConnection(HTTPConnection):
    """A connection that is made within ``CONNECT_TIMEOUT`` s, or fails."""

    def connect(self) -> None:
        patience, self.timeout = self.timeout, min(cast("float", self.timeout), CONNECT_TIMEOUT)
        super().connect()
        self.timeout = patience
        self.sock.settimeout(patience)


class _QuickEncryptedConnection(_QuickConnection, HTTPSConnection):
    """The same with encryption."""


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_QuickConnection, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__(context=context)
        self._ours = context

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_QuickEncryptedConnection, request, context=self._ours)


def opener(
    context: ssl.SSLContext | None = None, *more: urllib.request.BaseHandler
) -> urllib.request.OpenerDirector:
    """Return an HTTP client that uses the environment's proxies and does not follow redirections.

    A ``context`` carries authorities and a certificate. ``more`` handlers replace the usual ones.
    """
    return urllib.request.build_opener(_NoRedirect, _Http, _Https(context), *more)


class _Body(io.RawIOBase):
    """The body of an answer. An early end raises an error, so a file is never silently short."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer

    def read(self, size: int = -1) -> bytes:
        """Read up to that many bytes. Raises IncompleteRead."""
        data = self._answer.read(size)
        if not data and self._answer.length:
            raise IncompleteRead(b"", self._answer.length)
        return data

    def close(self) -> None:
        """Close the connection."""
        self._answer.close()


class _Decompressed(io.RawIOBase):
    """The content of a body that a server compressed by gzip or deflate."""

    def __init__(self, compressed: _Body) -> None:
        self._compressed, self._decoder = compressed, zlib.decompressobj(AUTOMATIC)

    def read(self, size: int = -1) -> bytes:
        """Read up to that many bytes. Raises OSError for content that ends early or is none."""
        if size < 0:
            return b"".join(iter(partial(self.read, BLOCK), b""))
        content = b""
        try:
            while size and not content:
                data = self._rest() or self._compressed.read(BLOCK)
                if self._decoder.eof and not data:
                    break
                if self._decoder.eof:  # another part follows
                    self._decoder = zlib.decompressobj(AUTOMATIC)
                content = self._decoder.decompress(data, size)
                if not (data or content or self._decoder.eof):
                    raise OSError("compressed content ends early")
        except zlib.error as error:
            raise OSError(f"compressed content cannot be read: {error}") from error
        return content

    def _rest(self) -> bytes:
        return self._decoder.unconsumed_tail or self._decoder.unused_data

    def close(self) -> None:
        """Close the connection."""
        self._compressed.close()


def body(answer: HTTPResponse) -> IO[bytes]:
    """Return the body of an answer as a file, decompressed if the server compressed it unasked. Raises
    OSError for an unknown one."""
    encoding = answer.headers.get("Content-Encoding")
    if not encoding or not is_encoded(encoding, answer.url):
        return cast("IO[bytes]", _Body(answer))
    if encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        answer.close()
        raise OSError(f"{without_query(answer.url)} comes compressed ({encoding}), though asked not to")
    return cast("IO[bytes]", _Decompressed(_Body(answer)))


def not_found(error: urllib.error.HTTPError, path: str) -> OSError:
    """Return the error itself, or FileNotFoundError if the file does not exist."""
    if error.code not in GONE:
        return error
    error.close()
    return FileNotFoundError(errno.ENOENT, "not found", path)


def message_of(error: urllib.error.HTTPError) -> str:
    """Return the server's message in one short line; empty if there is none."""
    try:
        return " ".join(error.read(10_000).decode(errors="replace").split())[:300]
    except (OSError, HTTPException):
        return ""


class Web:
    """Requests with the same headers, which go only to the first server.

    ``authorities`` (PEM) replace the system's; a ``context`` carries them and a certificate. ``redirects_to``
    names the hosts that the server may redirect to, by default its domain's.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        director: urllib.request.OpenerDirector | None = None,
        authorities: str = "",
        context: ssl.SSLContext | None = None,
        redirects_to: Sequence[str] | None = None,
    ) -> None:
        self._headers, self._redirects_to = dict(headers), redirects_to
        if authorities:
            context = ssl.create_default_context(cadata=authorities)
        if context:
            director = opener(context)
        self._director = director or opener()

    def ask(self, method: str, url: str, source: IO[bytes] | None = None) -> HTTPResponse:
        """Make a request with all of ``source`` as its body, and follow its redirections.

        A server that hangs up while the content comes may have answered. So ask it again with one byte.
        """
        start, server, content, hung_up = url, server_of(url), source, False
        for _ in range(2 * MOST_REDIRECTS):
            try:
                answer = self._send(method, url, content, server_of(url) == server)
                if content is source:
                    return answer
                answer.close()
            except urllib.error.HTTPError as error:
                to = error.headers.get("Location")
                if error.code not in (301, 302, 303, 307, 308) or not to:
                    raise
                url, hung_up = urllib.parse.urljoin(url, to), False
                is_web = urllib.parse.urlsplit(url).scheme in ("http", "https")
                if not is_web or not may_redirect(start, url, self._redirects_to):
                    redirection = f"{method} {without_query(start)}: sent on to {without_query(url)}"
                    fault = "redirects_to does not name it" if is_web else "it is no address of the web"
                    raise OSError(f"{redirection}, which is not followed: {fault}") from error
            except (urllib.error.URLError, ConnectionError) as error:
                reason = getattr(error, "reason", error)
                if source is None or hung_up or not isinstance(reason, ConnectionError):
                    raise
                content, hung_up = io.BytesIO(b"?"), True
                continue
            content = source
        raise OSError(f"{method} {without_query(start)}: sent on more than {MOST_REDIRECTS} times")

    def _send(self, method: str, url: str, content: IO[bytes] | None, with_headers: bool) -> HTTPResponse:
        """Make one request."""
        # Headers hold tokens: another server must not see them.
        headers = dict(self._headers) if with_headers else {}
        if content is not None:
            headers["Content-Length"] = str(content.seek(0, os.SEEK_END))
            headers["Content-Type"] = "application/octet-stream"
            content.seek(0)
        # As an iterator: http.client would read a file in blocks of 8 kB.
        data = None if content is None else iter(partial(content.read, BLOCK), b"")
        request = urllib.request.Request(url, data, headers, method=method)
        answer: HTTPResponse = self._director.open(request, timeout=TIMEOUT)
        return answer
