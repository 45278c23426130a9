"""The database's clock. All times that several servers write and compare come from it."""

import logging
import threading
import time
from collections.abc import Callable
from operator import itemgetter

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from pilotage.store.database.driver_errors import outage
from pilotage.store.database.engine import Database
from pilotage.store.pilots.table import pilots
from pilotage.store.queues.federations import federations
from pilotage.store.servers.iterations import MATCHES_BEGIN, iterations
from pilotage.store.tasks.table import tasks

log = logging.getLogger(__name__)

Clock = Callable[[], float]

READ_EVERY = 60.0
"""Seconds between two readings. This machine's steady clock counts in between."""

LONGEST_READING = 1.0
"""Longest time in s of a reading: it may be wrong by half of that. A slower one is discarded."""

FIRST_READINGS = 3
"""Further readings at the start if all were slow."""

SKEW_TOLD = 5.0
"""Difference of this machine's clock in s, or further drift, before the server logs a warning."""

_NOW = text("SELECT extract(epoch FROM clock_timestamp())::float8")


def clock_of(database: Database) -> Clock:
    """Return the clock of a store. For SQLite it is this machine's, because the file is here."""
    clock = DatabaseClock(lambda: time_of(database)) if database.is_postgresql else time.time
    return MonotoneClock(clock, newest=database.read(_newest))


def _newest(connection: Connection) -> float:
    """Return the newest of some stored times. The store's clock must not begin before it."""
    return max(connection.execute(query).scalar() or 0.0 for query in _TIMES)


def time_of(database: Database) -> float:
    """Return PostgreSQL's time now, in s since 1970 UTC."""
    with database.engine.connect() as connection:
        return float(connection.execute(_NOW).scalar_one())


_TIMES = (
    select(func.max(iterations.c.time)).where(iterations.c.step != MATCHES_BEGIN),
    select(func.max(federations.c.time)),
    select(tasks.c.created).order_by(tasks.c.id.desc()).limit(1),
    select(func.coalesce(pilots.c.heartbeat, pilots.c.created)).order_by(pilots.c.id.desc()).limit(1),
)


def steady_time() -> float:
    """Return seconds that also count during suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


FARTHEST_AHEAD = 86_400.0
"""Seconds ahead of the clock: later stored times are ignored."""

SLOWER, FASTER = 0.9, 1.25
"""Rates of a clock that is ahead of the right time, or behind it, until both agree. Even at the faster rate a
lease, 0.6 of its time-out, ends before the time-out does."""

LONGEST_GAP = 10.0
"""Seconds without a call: after a longer gap the process may have been frozen, and its last reading may be
wrong. So both rates count a longer gap as this long, and the database is read again immediately."""

FOLLOWED_AT_ONCE = 5.0
"""Seconds: if the right time is ahead by at most this, the clock jumps to it."""


class MonotoneClock:
    """A clock that never jumps, even if the clock that it reads does. It begins at ``newest`` or later.

    If someone sets the other clock back or ahead, this one runs slower or faster until both agree. A jump
    back would stop everything that waits for a time. A jump ahead would make all pilots seem silent and end
    all leases. A ``newest`` more than a day ahead is ignored.
    """

    def __init__(self, read: Clock, steady: Clock = steady_time, newest: float = 0.0) -> None:
        self._read, self._steady = read, steady
        self._lock = threading.Lock()
        right = read()
        self._at, self._last = steady(), max(right, newest if newest < right + FARTHEST_AHEAD else 0.0)
        self._told = 0.0

    def __call__(self) -> float:
        right, at = self._read(), self._steady()
        with self._lock:
            elapsed = max(0.0, at - self._at)
            ahead = self._last + elapsed - right
            steered = min(elapsed, LONGEST_GAP)
            self._at = max(at, self._at)
            if ahead >= 0:
                self._last = max(right, self._last + elapsed - (1 - SLOWER) * steered)
            elif ahead >= -FOLLOWED_AT_ONCE:
                self._last = right
            else:
                self._last = min(right, self._last + elapsed + (FASTER - 1) * steered)
            now, reported = self._last, self._told
            grew = abs(ahead) - abs(reported) > SKEW_TOLD or ahead * reported < 0
            tell = abs(ahead) > SKEW_TOLD and grew
            # Do not warn again while the difference shrinks.
            self._told = ahead if tell or abs(ahead) < abs(reported) else reported
        if tell:
            log.warning(*_skew_warning(ahead))
        return now


def _skew_warning(ahead: float) -> tuple[str, float]:
    if ahead > 0:
        return (
            "the clock is %.0f s behind stored times: it was set back, or had been ahead; "
            "time runs more slowly until both agree",
            ahead,
        )
    return "the clock was set %.0f s ahead: time runs faster until both agree", -ahead


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="clock", daemon=True).start()


class DatabaseClock:
    """The time of ``read``, in s since 1970 (UTC), without reading it for each call.

    Without it, a server with a clock that is hours ahead would take all pilots for silent and start all jobs
    again. The clock logs how far ``local``, the machine's clock, is off. Safe to use from many threads. Only
    the first reading blocks: ``start`` runs the later ones elsewhere, because a database may hang.
    """

    def __init__(
        self,
        read: Clock,
        local: Clock = time.time,
        steady: Clock = steady_time,
        every: float = READ_EVERY,
        start: Callable[[Callable[[], None]], None] = _in_a_thread,
    ) -> None:
        self._read, self._local, self._steady, self._every = read, local, steady, every
        self._start = start
        self._reading = threading.Lock()
        self._told = 0.0
        # There is no earlier offset to keep yet. Of slow readings the quickest is the best.
        self._called = steady()
        self._offset, self._next, took = self._measured()
        for _ in range(FIRST_READINGS):
            if took > LONGEST_READING:
                self._offset, self._next, took = min(
                    (self._offset, self._next, took), self._measured(), key=itemgetter(2)
                )

    def __call__(self) -> float:
        now = self._steady()
        is_due = now >= self._next or now - self._called > LONGEST_GAP
        self._called = now
        # One thread reads again; the others use the last offset.
        if is_due and self._reading.acquire(blocking=False):
            self._start(self._read_again)
        return self._offset + self._steady()

    def _read_again(self) -> None:
        try:
            offset, self._next, took = self._measured()
            if took > LONGEST_READING:
                log.warning("a reading of the database's clock took %.1f s, and is discarded", took)
            else:
                self._offset = offset
        except SQLAlchemyError as error:
            # The steady clock stays right for much longer than a database is usually away.
            log.warning("the database's clock could not be read: %s", outage(error) or error)
            self._next = self._steady() + self._every
        finally:
            self._reading.release()

    def _measured(self) -> tuple[float, float, float]:
        """Return the offset to the steady clock, the time of the next reading, and how long this one took."""
        before = self._steady()
        now = self._read()
        after = self._steady()
        pause = self._every if after - before <= LONGEST_READING else min(self._every, LONGEST_GAP)
        # Assume that the database read its clock halfway between question and answer.
        if after - before <= LONGEST_READING:
            self._tell(self._local() - now - (after - before) / 2)
        return now - (before + after) / 2, after + pause, after - before

    def _tell(self, skew: float) -> None:
        if abs(skew - self._told) < SKEW_TOLD:
            return
        self._told = skew
        log.warning(
            "this machine's clock is %.0f s %s the database's, whose time counts; let NTP set it",
            abs(skew),
            "ahead of" if skew > 0 else "behind",
        )
