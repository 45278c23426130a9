"""Notices between processes that share a store: short words, which whoever listens at that moment hears.

PostgreSQL carries them (LISTEN and NOTIFY). SQLite has no such thing: nothing is sent, nothing is heard, and
loops find what others did at their next period.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from .engine import Database
from .errors import NoticesLost

if TYPE_CHECKING:
    import psycopg

_CHANNEL = "SELECT 'pilotage ' || current_schema()"

_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""Whoever only listens would never learn that the other end has vanished."""


class Notices:
    """Sends notices and opens ears for them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = ""

    @property
    def are_carried(self) -> bool:
        """Tell whether the store carries notices at all."""
        return self._database.is_postgresql

    def send(self, words: str) -> None:
        """Send words, of 8,000 bytes at most, to all who listen, this process included."""
        if not self.are_carried:
            return
        if not self._channel:
            self._channel = self._database.run(_CHANNEL, {})[0][0]
        values = {"channel": self._channel, "words": words}
        self._database.run("SELECT pg_notify(%(channel)s, %(words)s)", values)

    def listen(self) -> "Subscription":
        """Begin to listen, from now on. Raises :class:`NoticesLost`; ValueError where none are carried."""
        if not self.are_carried:
            raise ValueError("SQLite carries no notices")
        return Subscription(self._database.engine)


class Subscription:
    """A connection that listens. For one thread, which owns it; closed by another, it hears no more."""

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

    def heard(self, timeout: float) -> Iterator[str]:
        """The words that come in within ``timeout`` s, each as it comes. Raises :class:`NoticesLost`."""
        try:
            for notice in self._connection.notifies(timeout=timeout):
                yield notice.payload
        except self._error as error:
            raise NoticesLost(str(error)) from error

    def close(self) -> None:
        """Listen no more."""
        self._connection.close()
