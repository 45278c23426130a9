"""The last weeks of the store: the use of shares by hour, failed attempts and use by day; a day of work."""

from collections.abc import Iterable, Sequence

from pilotage.model.records.use import LOSSES
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Identity
from pilotage.store.database.engine import Database
from pilotage.store.jobs import daily_failures, daily_use, work_quarters
from pilotage.store.jobs.daily_failures import FailureHistory
from pilotage.store.jobs.daily_use import UseBy, UseReport
from pilotage.store.jobs.work_quarters import WorkCounts, WorkOf, WorkQuarter, WorkSample
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

    def work_counts(self, newest: int | None, last: Iterable[int]) -> WorkCounts:
        """Return the counts of queues, of live tasks, and of tasks after the ``newest`` or the ``last``."""
        return self._database.read(lambda connection: work_quarters.counted(connection, newest, last))

    def add_work(self, samples: Sequence[WorkSample], time: float) -> None:
        """Add what runs at a time (s since 1970), and what finished before it."""
        self._database.write(lambda connection: work_quarters.add(connection, samples, time))

    def work(self, kind: WorkOf, name: str, after: float) -> list[WorkQuarter]:
        """Return running and finished jobs of a site, person or task since a time (s since 1970)."""
        return self._database.read(lambda connection: work_quarters.read(connection, kind, name, after))

    def forget(self, now: float) -> None:
        """Delete everything older than ``KEPT``, and work older than a day."""
        self._database.write(lambda connection: work_quarters.forget(connection, now))
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
