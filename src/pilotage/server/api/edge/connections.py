"""Limit the cost of a connection before its request is parsed.

uvicorn limits neither the size of a request's head nor the time for sending it.
"""

import asyncio
import fcntl
import logging
import resource
import termios
from array import array
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = logging.getLogger(__name__)

HEAD_TIMEOUT = 10.0
"""Seconds for a request line and its headers to arrive."""

LARGEST_HEAD = 32 * 1024
"""Most bytes of a request line and its headers."""

READER_TIMEOUT = 60.0
"""Seconds for which a client may read nothing of its waiting answer."""

MOST_CONNECTIONS = 4096
"""Most connections; fewer if the system allows fewer open files."""

_OTHER_FILES = 256
"""Files that the process keeps open besides connections."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on the size and time of a request's head, on stalled readers, and on connections.

    Reading a file through the server holds a process until the client has taken it. If a client takes
    nothing, its connection is aborted, so that it notices and can resume. At the limit, the connection that
    has waited longest for a request makes way for a new one. So silent clients do not keep others out.
    """

    limit = MOST_CONNECTIONS
    head_timeout = HEAD_TIMEOUT
    largest_head = LARGEST_HEAD
    reader_timeout = READER_TIMEOUT

    _stalled: asyncio.TimerHandle | None = None
    _timer: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit a connection. At the limit, close the one that has been idle longest."""
        idle: dict[LimitedProtocol, None] = self.app_state.setdefault("idle_connections", {})
        # If none is idle, still admit the new one: busy ones are running requests, which end.
        if len(self.connections) >= self.limit and idle:
            oldest = next(iter(idle))
            del idle[oldest]
            # Abort instead of closing: a client that reads nothing would keep a closing socket open for ever.
            oldest.transport.abort()
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._head_is_here()
        self._reader_goes_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop writing until the client has read its pending data, and check that it does."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Resume writing."""
        self._reader_goes_on()
        super().resume_writing()

    def _watch_reader(self) -> None:
        self._reader_goes_on()
        self._stalled = self.loop.call_later(
            self.reader_timeout, self._look_at_reader, untaken(self.transport)
        )

    def _look_at_reader(self, before: int) -> None:
        if untaken(self.transport) < before:
            self._watch_reader()
            return
        log.warning("a client took nothing of its answer for %g s: broken off", self.reader_timeout)
        # Abort instead of closing, which would wait for the client again.
        self.transport.abort()

    def _reader_goes_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def data_received(self, data: bytes) -> None:
        """Parse new bytes. Refuse a head that is incomplete but already too large."""
        super().data_received(data)
        # Only while waiting for a head: the guard limits the time of a body.
        if self._timer is not None and not self.transport.is_closing():
            self._head += len(data)
            if self._head > self.largest_head:
                self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """Start waiting for the rest of a head, also on a reused connection."""
        super().on_message_begin()
        if self._timer is None:
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too large."""
        self._head_is_here()
        # A head that came in one piece was not counted before. Four bytes: the colon, the blank, the line's
        # end.
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.largest_head:
            self._refuse(b"431 Request Header Fields Too Large")
        elif not self.transport.is_closing():
            super().on_headers_complete()

    # httptools parses the rest of the bytes even after a handler has refused the request.
    def on_body(self, body: bytes) -> None:
        """Keep a part of the body. Drop it if the request was refused."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request's body."""
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the connection's next request, if there is none yet."""
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:
            self._idle()[self] = None

    def _idle(self) -> dict[Any, None]:
        return self.app_state["idle_connections"]  # type: ignore[no-any-return]

    def _wait_for_head(self) -> None:
        self._head = 0
        self._idle()[self] = None
        self._timer = self.loop.call_later(self.head_timeout, self._refuse, b"408 Request Timeout")

    def _head_is_here(self) -> None:
        self._idle().pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: bytes) -> None:
        self._head_is_here()
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            self.transport.close()


def untaken(transport: asyncio.WriteTransport) -> int:
    """Return the bytes written to a connection that its client has not received, including those in the
    system's buffer.

    The system accepts more only when a third of its buffer is free, so a slow client would seem to read
    nothing.
    """
    unsent, connection = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    queued = array("i", [0])
    try:
        fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, queued)
    except OSError:  # it was closed meanwhile, or is of a kind that does not tell
        return unsent
    return unsent + queued[0]


def allow_connections() -> int:
    """Raise the limit of open files if allowed. Return the possible number of connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = MOST_CONNECTIONS + _OTHER_FILES
    allowed = need if hard == resource.RLIM_INFINITY else min(hard, need)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, allowed - _OTHER_FILES)
