"""Up to which number a log is complete, so that its readers miss no row.

On SQLite the one writer numbers rows, so numbers have the order of commits. On PostgreSQL a sequence numbers
them, and a later number may be committed earlier. So every writer takes a shared lock before its first
number, and releases it when its commit is visible. Readers wait for that.
"""

import threading
import time

from sqlalchemy import Column, func, select

from pilotage.store.database.engine import WRITER_SILENCE, Database

LOCK = "7236141, hashtext(current_schema())"
"""The advisory lock that the writers of logs share on PostgreSQL."""

TURN = f"WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({LOCK}))"
"""The beginning of a statement on PostgreSQL that takes the lock before it numbers rows from ``turn``."""

LONGEST_COMMIT = 1.5 * WRITER_SILENCE
"""Seconds for which a reader waits for commits that may still bring earlier rows. PostgreSQL ends a silent
writer sooner."""

_COMMITTING = f"""
SELECT virtualtransaction FROM pg_locks CROSS JOIN (SELECT {LOCK}) AS logs (space, name)
WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND classid = space::oid
  AND objid::bigint = name::bigint & 4294967295
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class SettledNumbers:
    """Finds the newest number of a log that can get no new predecessor."""

    def __init__(self, database: Database, number: Column[int], sequence: str) -> None:
        self._database = database
        self._largest = select(func.coalesce(func.max(number), 0))
        self._numbered = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"
        self._lock = threading.Lock()
        self._newest = 0

    def visible(self) -> int:
        """Return the newest visible number; 0 if there is none. On PostgreSQL earlier ones may appear yet."""
        return self._database.read(lambda connection: int(connection.execute(self._largest).scalar_one()))

    def newest(self) -> int:
        """Return the newest number that can get no new predecessor; 0 if there is none.

        On PostgreSQL it waits for the commits that took a number and are not visible yet.
        """
        if not self._database.is_postgresql:
            return self.visible()
        numbered = int(self._database.look(self._numbered, {})[0][0])
        last = self._newest
        if numbered <= last:
            return last
        # A transaction takes the lock before its first number, and releases it once its rows are visible.
        committing = self._committing()
        pause, until = 0.002, time.monotonic() + LONGEST_COMMIT
        while committing:
            if time.monotonic() > until:
                return self._newest
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
            committing &= self._committing()
        with self._lock:
            self._newest = max(self._newest, numbered)
            return self._newest

    def _committing(self) -> set[str]:
        """Return the transactions that may have numbered rows and are not visible yet."""
        return {row[0] for row in self._database.look(_COMMITTING, {})}
