"""Connections of SQLite that are kept from one transaction to the next.

SQLAlchemy takes longer to give a connection out, to begin and to end a transaction than SQLite for most of
what is done in one. So the driver begins and ends them, in what SQLAlchemy takes for one without end.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from .direct_statements import driver

if TYPE_CHECKING:
    import sqlite3

BEGIN = "begin"
"""The execution option that says how SQLAlchemy begins a transaction of SQLite; empty where it does not."""


class KeptConnections:
    """Connections that nobody uses. A thread is given one of them, or a new one where there is none."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(**{BEGIN: ""})
        self._idle: list[tuple[Connection, sqlite3.Connection]] = []

    @contextlib.contextmanager
    def transaction(self, begin: str) -> Iterator[Connection]:
        """Begin a transaction by ``begin`` and commit it when the block ends, unless it raises."""
        connection, own = self._spare()
        try:
            own.execute(begin)
            yield connection
            own.execute("COMMIT")
        except BaseException:
            # Rolls back; nobody knows in what state an error left it, so that it is not given to the next.
            connection.close()
            raise
        self._idle.append((connection, own))

    def close(self) -> None:
        """Give back all that nobody uses."""
        while self._idle:
            self._idle.pop()[0].close()

    def _spare(self) -> "tuple[Connection, sqlite3.Connection]":
        try:
            # Not looked for before it is taken: another thread may take the last one in between.
            return self._idle.pop()
        except IndexError:
            connection = self._engine.connect()
            connection.begin()
            return connection, driver(connection)
