"""The last weeks of the store: the use of shares by hour, failed attempts and use by day."""

from collections.abc import Sequence

from pilotage.model.records.use import LOSSES
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Identity
from pilotage.store.database.engine import Database
from pilotage.store.jobs import daily_failures, daily_use
from pilotage.store.jobs.daily_failures import FailureHistory
from pilotage.store.jobs.daily_use import UseBy, UseReport
from pilotage.store.people import share_hours
from pilotage.store.people.share_hours import ShareSample, ShareSpan

KEPT = 30 * DAY
"""Seconds for which the store keeps all of it."""

LONG_STEP = 6
"""Hours to sum into one value for a period of more than a week."""


def step_of(seconds: float) -> int:
    """Return how many hours to sum into one value for a period of so many seconds."""
    return 1 if seconds <= 7 * DAY else LONG_STEP


class Past:
    """Adds to the stored sums, deletes old ones, and reads them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_sample(self, samples: Sequence[ShareSample], time: float) -> None:
        """Add what shares use at a time (s since 1970)."""
        self._database.write(lambda connection: share_hours.add(connection, samples, time))

    def forget(self, now: float) -> None:
        """Delete everything older than ``KEPT``."""
        before = now - KEPT
        self._database.write(lambda connection: share_hours.forget(connection, before))
        self._database.write(lambda connection: daily_failures.forget(connection, before))
        self._database.write(lambda connection: daily_use.forget(connection, before))

    def shares(self, after: float, now: float) -> list[ShareSpan]:
        """Return the use of each share since a time, by hour; by six hours for more than a week."""
        step = step_of(now - after)
        return self._database.read(lambda connection: share_hours.read(connection, after, step))

    def failures(self, owner: Identity | None, after: float) -> FailureHistory:
        """Return the failed attempts by day since a time: of one person, or of all if None."""
        return self._database.read(lambda connection: daily_failures.read(connection, owner, after))

    def usage(self, owner: Identity | None, after: float, by: UseBy) -> UseReport:
        """Return what a person's attempts used, or everybody's, since the day of a time."""
        return self._database.read(lambda connection: daily_use.read(connection, owner, after, by, LOSSES))
