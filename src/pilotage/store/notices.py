"""Notices between processes that share a store: short words, which whoever listens at that moment hears.

PostgreSQL carries them (LISTEN and NOTIFY). SQLite has no such thing: nothing is sent, nothing is heard, and
loops find what others did at their next period.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from .engine import Database

if TYPE_CHECKING:
    import psycopg

_CHANNEL = "SELECT 'pilotage ' || current_schema()"


class Notices:
    """Sends notices and opens ears for them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = ""

    def send(self, words: str) -> None:
        """Send words, of 8,000 bytes at most, to all who listen, this process included."""
        if not self._database.is_postgresql:
            return
        if not self._channel:
            self._channel = self._database.run(_CHANNEL, {})[0][0]
        values = {"channel": self._channel, "words": words}
        self._database.run("SELECT pg_notify(%(channel)s, %(words)s)", values)

    def listen(self) -> "Ears | None":
        """Begin to listen, from now on; None where there is nothing to hear."""
        return Ears(self._database.engine) if self._database.is_postgresql else None


class Ears:
    """A connection that listens. For one thread, which owns it; closed by another, it hears no more."""

    def __init__(self, engine: Engine) -> None:
        arguments, options = engine.dialect.create_connect_args(engine.url)
        driver = engine.dialect.import_dbapi()
        self._connection: psycopg.Connection[Any] = driver.connect(*arguments, autocommit=True, **options)
        (channel,) = self._connection.execute(_CHANNEL).fetchone() or ("",)
        self._connection.execute(f'LISTEN "{channel}"')

    def heard(self, timeout: float) -> Iterator[str]:
        """The words that come in within ``timeout`` s, each as it comes. Raises psycopg.Error when closed."""
        for notice in self._connection.notifies(timeout=timeout):
            yield notice.payload

    def close(self) -> None:
        """Listen no more."""
        self._connection.close()
