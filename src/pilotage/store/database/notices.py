"""Notices between processes that share a store: short words to all that listen at that moment.

PostgreSQL carries them (LISTEN and NOTIFY). SQLite has none: loops find the work of other processes at their
next period.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from pilotage.store.database.engine import Database
from pilotage.store.database.errors import NoticesLost

if TYPE_CHECKING:
    import psycopg

_CHANNEL = "SELECT 'pilotage ' || current_schema()"

_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""A pure listener would otherwise never notice that the other end has vanished."""


class Notices:
    """Sends notices and opens subscriptions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = ""

    @property
    def are_carried(self) -> bool:
        """Return whether the store supports notices."""
        return self._database.is_postgresql

    def send(self, words: str) -> None:
        """Send words, at most 8,000 bytes, to all listeners, including this process."""
        if not self.are_carried:
            return
        if not self._channel:
            self._channel = self._database.run(_CHANNEL, {})[0][0]
        values = {"channel": self._channel, "words": words}
        self._database.run("SELECT pg_notify(%(channel)s, %(words)s)", values)

    def listen(self) -> "Subscription":
        """Start listening. Raises ``NoticesLost``; ValueError if the store supports none."""
        if not self.are_carried:
            raise ValueError("SQLite carries no notices")
        return Subscription(self._database.engine)


class Subscription:
    """A listening connection for one thread. Another thread may close it: no notices arrive after that."""

    def __init__(self, engine: Engine) -> None:
        arguments, options = engine.dialect.create_connect_args(engine.url)
        driver = engine.dialect.import_dbapi()
        self._error: type[Exception] = driver.Error
        try:
            self._connection: psycopg.Connection[Any] = driver.connect(
                *arguments, autocommit=True, **options, **_KEEPALIVE
            )
            (channel,) = self._connection.execute(_CHANNEL).fetchone() or ("",)
            self._connection.execute(f'LISTEN "{channel}"')
        except self._error as error:
            raise NoticesLost(str(error)) from error

    def receive(self, timeout: float) -> Iterator[str]:
        """Yield the words that arrive within ``timeout`` s, one at a time. Raises ``NoticesLost``."""
        try:
            for notice in self._connection.notifies(timeout=timeout):
                yield notice.payload
        except self._error as error:
            raise NoticesLost(str(error)) from error

    def close(self) -> None:
        """Stop listening."""
        self._connection.close()
