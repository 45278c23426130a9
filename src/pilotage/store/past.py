"""The past of the store: use by day; for weeks attempts, failed ones and shares; a day of work."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from pilotage.model.records.federation import Federation
from pilotage.model.rules import global_shares
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Owners
from pilotage.store.database.engine import Database
from pilotage.store.history.settled_numbers import SettledNumbers
from pilotage.store.jobs import (
    attempt_export,
    daily_failures,
    daily_use,
    ended_attempts,
    use_report,
    work_quarters,
)
from pilotage.store.jobs.attempt_export import AttemptPage
from pilotage.store.jobs.daily_failures import FailureHistory
from pilotage.store.jobs.daily_use import UseSince
from pilotage.store.jobs.use_report import UseQuery, UseReport
from pilotage.store.jobs.work_quarters import WorkCounts, WorkOf, WorkQuarter, WorkSample
from pilotage.store.people import share_hours
from pilotage.store.people.share_hours import ShareSample, ShareSpan
from pilotage.store.queues import share_targets
from pilotage.store.queues.queues_then import QueuesThen

KEPT = 30 * DAY
"""Seconds for which the store keeps all of it but work, and days of use with their tasks."""

USE_KEPT = 400 * DAY
"""Seconds for which it keeps days of use: the same month of the last year is still there."""

LONG_STEP = 6
"""Hours to sum into one value for a period of more than a week."""


def step_of(seconds: float) -> int:
    """Return how many hours to sum into one value for a period of so many seconds."""
    return 1 if seconds <= 7 * DAY else LONG_STEP


class Past:
    """Adds to the stored sums, deletes old ones, and reads them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._attempts = SettledNumbers(database, ended_attempts.ended_attempts.c.id, ended_attempts.SEQUENCE)
        self._queues = QueuesThen()

    def add_attempts(self) -> None:
        """Add the attempts that ended since the last time to their days, and to the metrics."""
        newest = self._attempts.newest()
        if self._database.read(ended_attempts.added) >= newest:
            return

        def write(connection: Connection) -> bool:
            return daily_use.add(connection, newest, self._queues.reader(connection))

        while self._database.write(write, alone=False):
            pass

    def add_sample(self, samples: Sequence[ShareSample], time: float) -> None:
        """Add what shares use at a time (s since 1970)."""
        self._database.write(lambda connection: share_hours.add(connection, samples, time))

    def follow_use(self, federation: Federation, time: float) -> None:
        """Let the targets of shares follow their use until a time (s since 1970), or return to the declared.

        ``federation`` has the targets that people gave.
        """
        rule = federation.share_use
        spans = self.shares(time - rule.window * DAY, time) if rule.window else []
        use = global_shares.mean_use(
            ((span.time, span.share, span.running) for span in spans), time, rule.half_life
        )
        targets = global_shares.following(federation.shares, use) if use else {}
        self._database.write(lambda connection: share_targets.write(connection, targets))

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
        """Delete work older than a day, use older than ``USE_KEPT``, and all else older than ``KEPT``."""
        write, before = self._database.write, now - KEPT
        write(lambda connection: work_quarters.forget(connection, now))
        write(lambda connection: share_hours.forget(connection, before))
        write(lambda connection: daily_failures.forget(connection, before))
        write(lambda connection: daily_use.forget(connection, now - USE_KEPT, before))
        # One batch at a time, so that others write in between.
        while write(lambda connection: ended_attempts.forget(connection, before)):
            pass

    def shares(self, after: float, now: float) -> list[ShareSpan]:
        """Return the use of each share since a time, by hour; by six hours for more than a week."""
        step = step_of(now - after)
        return self._database.read(lambda connection: share_hours.read(connection, after, step))

    def failures(self, owner: Owners, after: float) -> FailureHistory:
        """Return the failed attempts by day since a time."""
        return self._database.read(lambda connection: daily_failures.read(connection, owner, after))

    def attempts(self, after: int, most: int, since: float, until: float) -> AttemptPage:
        """Return ended attempts after a number, in an order that stays, of a time (s since 1970 UTC)."""
        return self._database.read(
            lambda connection: attempt_export.read(
                connection, self._queues.reader(connection), after, most, since, until
            )
        )

    def use_since(self, begin: float, vo: str, owner: str | None, group: str | None) -> UseSince:
        """Return what a VO's attempts used, of one owner or group unless None, since a day's begin."""
        return self._database.read(
            lambda connection: daily_use.use_since(connection, begin, vo, owner, group)
        )

    def usage(self, query: UseQuery) -> UseReport:
        """Return what attempts used that ended in some days."""
        return self._database.read(lambda connection: use_report.read(connection, query))
