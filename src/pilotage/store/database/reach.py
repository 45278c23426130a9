"""Find out whether PostgreSQL still answers. Once a call has waited for a second, one thread asks for all.

A frozen server keeps its connections, and its kernel still acknowledges packets, so no TCP time-out ends a
call. A slow statement is no fault while the database answers others.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from pilotage.store.database.driver_errors import passes
from pilotage.store.database.errors import NotUnicode

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

SERVES_A_CALLER: ContextVar[bool] = ContextVar("SERVES_A_CALLER", default=False)
"""Whether a person or program waits for the answer to a request. Loops have no caller, and wait longer: they
must store the results of their actions outside."""

SILENCE = 1.0
"""Seconds without an answer after which a call asks whether the database still answers others."""

AWAY_AFTER = 2.0
"""Seconds without an answer to any call after which the database counts as away."""

CONNECTED_WITHIN = 3
"""Seconds for a new connection. The question has a second less, so that its answer comes before."""

UNICODE = "UTF8"
"""The only encoding of a database: from others text comes as bytes, or a name cannot be stored."""

_PAUSE = 0.2


class Reachability:
    """Whether a PostgreSQL database answers. ``connect`` opens a connection for the question."""

    def __init__(self, connect: "Callable[[], psycopg.Connection[Any]]") -> None:
        self.fault = ""
        """Why the database is away, in one line; empty if it answers."""
        self._connect = connect
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._is_asked = False

    def doubt(self) -> None:
        """Let a thread ask the database, unless one does so already."""
        with self._lock:
            if self._is_asked or self._closed.is_set():
                return
            self._is_asked = True
        threading.Thread(target=self._ask, name="database-reach", daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def check(self) -> None:
        """Raise psycopg's OperationalError if the database is away."""
        if self.fault:
            import psycopg

            raise psycopg.OperationalError(self.fault)

    def look(self, begun: float) -> str:
        """Return why a call that began then, by time.monotonic, should end; empty if it should not."""
        if time.monotonic() - begun >= SILENCE:
            self.doubt()
        return self.fault

    def _ask(self) -> None:
        begun = time.monotonic()
        while not self._closed.is_set():
            try:
                with closing(self._connect()) as connection:
                    connection.execute("SELECT 1")
            except Exception as error:
                if passes(error):
                    if time.monotonic() - begun >= AWAY_AFTER:
                        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                        self.fault = f"the database does not answer: {reason}"
                    self._closed.wait(_PAUSE)
                    continue
            break  # a database that refuses answers, too
        with self._lock:
            self.fault, self._is_asked = "", False


def too_long(begun: float) -> str:
    """Return a fault if a call that began at this time lasts too long for a question; else empty."""
    is_over = time.monotonic() - begun >= AWAY_AFTER
    return f"no answer within {AWAY_AFTER:g} s" if is_over else ""


def watched_connection(look: Callable[[float], str]) -> "type[psycopg.Connection[Any]]":
    """Return the driver's connection with calls that may end before their answer.

    ``look`` gets the beginning of a call, ten times a second while it waits, and returns why it should end.
    The call then raises psycopg's OperationalError, and its connection is closed.
    """
    import psycopg

    class WatchedConnection(psycopg.Connection[Any]):
        def wait(self, gen: Any, *args: Any, **more: Any) -> Any:
            return super().wait(self._watched(gen), *args, **more)

        def _watched(self, call: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
            begun = time.monotonic()
            try:
                waited_for = next(call)
                while True:
                    ready = yield waited_for
                    if not ready and (fault := look(begun)):
                        self.pgconn.finish()
                        raise psycopg.OperationalError(fault)
                    waited_for = call.send(ready)
            except StopIteration as end:
                result: T = end.value
                return result

    return WatchedConnection


def in_unicode(connection: "psycopg.Connection[Any]") -> "psycopg.Connection[Any]":
    """Return a connection to a database of Unicode text. Raises ``NotUnicode`` for one of other text."""
    encoding = connection.info.parameter_status("server_encoding") or UNICODE
    if encoding != UNICODE:
        name = connection.info.dbname
        connection.close()
        raise NotUnicode(name, encoding)
    return connection
