"""SQLite connections that are reused for many transactions.

For most small transactions, SQLAlchemy takes longer than SQLite to hand out a connection and to begin and end
the transaction. So the driver begins and ends them, inside what SQLAlchemy sees as one endless transaction.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from pilotage.store.database.dialects import driver

if TYPE_CHECKING:
    import sqlite3

BEGIN = "begin"
"""The execution option with the statement that begins a SQLite transaction; empty if SQLAlchemy begins
none."""


class KeptConnections:
    """Unused connections. A thread gets one of them, or a new one if there is none."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(**{BEGIN: ""})
        self._idle: list[tuple[Connection, sqlite3.Connection]] = []

    @contextlib.contextmanager
    def transaction(self, begin: str) -> Iterator[Connection]:
        """Begin a transaction with ``begin``, and commit it at the end of the block unless that raises."""
        connection, driver = self._spare()
        try:
            driver.execute(begin)
            yield connection
            driver.execute("COMMIT")
        except BaseException:
            # This rolls back. Its state after an error is unknown, so it is not reused.
            connection.close()
            raise
        self._idle.append((connection, driver))

    def close(self) -> None:
        """Close all unused connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def _spare(self) -> "tuple[Connection, sqlite3.Connection]":
        try:
            # Pop without checking first: another thread may take the last one in between.
            return self._idle.pop()
        except IndexError:
            connection = self._engine.connect()
            connection.begin()
            return connection, driver(connection)
