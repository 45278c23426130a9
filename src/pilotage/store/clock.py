"""The database's clock: times that several servers write and compare are all of this one."""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from .engine import Database

log = logging.getLogger(__name__)

Clock = Callable[[], float]

READ_EVERY = 60.0
"""Seconds between two readings; this machine's steady clock counts in between."""

SKEW_TOLD = 5.0
"""Seconds by which this machine's clock may differ, or may drift on, before that is said."""

_NOW = text("SELECT extract(epoch FROM clock_timestamp())::float8")


def clock_of(database: Database) -> Clock:
    """Return the clock that counts for a store: of SQLite it is this machine's, as the file is here."""
    return DatabaseClock(lambda: _read(database)) if database.is_postgresql else time.time


def _read(database: Database) -> float:
    with database.engine.connect() as connection:
        return float(connection.execute(_NOW).scalar_one())


def _steady() -> float:
    """Seconds that also count while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class DatabaseClock:
    """The time that ``read`` tells, in s since 1970 (UTC), without asking each time.

    A server whose own clock is ahead would else take every heartbeat of the others for hours of silence, and
    start all jobs anew. How far ``local``, its own clock, is off is logged. Safe to use from many threads.
    """

    def __init__(
        self, read: Clock, local: Clock = time.time, steady: Clock = _steady, every: float = READ_EVERY
    ) -> None:
        self._read, self._local, self._steady, self._every = read, local, steady, every
        self._reading = threading.Lock()
        self._told = 0.0
        self._offset, self._next = self._measured()

    def __call__(self) -> float:
        # One thread reads anew; the others go on with the offset of before, and wait for nobody.
        if self._steady() >= self._next and self._reading.acquire(blocking=False):
            try:
                self._offset, self._next = self._measured()
            except SQLAlchemyError as error:
                # The steady clock is right for much longer than a database is away.
                log.warning("the database's clock could not be read: %s", error)
                self._next = self._steady() + self._every
            finally:
                self._reading.release()
        return self._offset + self._steady()

    def _measured(self) -> tuple[float, float]:
        """Read the offset to the steady clock, as of the middle of the reading, and when to read again."""
        before = self._steady()
        now = self._read()
        after = self._steady()
        # The answer is taken to be of the middle between question and answer.
        self._tell(self._local() - now - (after - before) / 2)
        return now - (before + after) / 2, after + self._every

    def _tell(self, skew: float) -> None:
        if abs(skew - self._told) < SKEW_TOLD:
            return
        self._told = skew
        log.warning(
            "this machine's clock is %.0f s %s the database's, whose time counts; let NTP set it",
            abs(skew),
            "ahead of" if skew > 0 else "behind",
        )
