"""Last calls of pilots and starts of jobs at each queue, and durations of its jobs: for B9, B26 and E2."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Double, String, Table, bindparam, select, text

from pilotage.model.documents.decision import Touch
from pilotage.model.records.states import JobState, Kind, PilotState, State
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import POSTGRESQL, SQLITE, dialect_of, replaced, upsert
from pilotage.store.database.rows import among, raw_rows

queue_reports = Table(
    "queue_reports",
    metadata,
    Column("queue", String, primary_key=True),
    Column("last_pilot", Double),
    Column("last_start", Double),
    Column("mean_run", Double),
)

_COLUMNS = ("last_pilot", "last_start")

REPORTED_AFTER = 10.0
"""Seconds before a queue's last call or start is written again: B9 and B26 need only hours."""

_q = queue_reports.c
_LATELY = {
    column: select(_q.queue).where(among(_q.queue, "queues"), _q[column] > bindparam("time"))
    for column in _COLUMNS
}
_SEEN = {
    column: upsert(
        queue_reports,
        ["queue"],
        ["queue", column],
        replaced([column]),
        restriction=f"coalesce(queue_reports.{column}, 0) < excluded.{column}",
    )
    for column in _COLUMNS
}

NEWEST = 0.05
"""Weight of the newest job in a queue's mean."""

_MEAN = "UPDATE queue_reports SET mean_run = coalesce(mean_run, :first) * :left + :new"
_MEASURED = {
    SQLITE: text(f"{_MEAN} WHERE queue = :queue"),
    # The commits of a queue would wait for each other at its row: one that another writes misses these runs.
    POSTGRESQL: text(
        "WITH free AS MATERIALIZED ("
        " SELECT queue FROM queue_reports WHERE queue = :queue FOR UPDATE SKIP LOCKED"
        f") {_MEAN} FROM free WHERE queue_reports.queue = free.queue"
    ),
}
"""The statement that updates the mean of a queue, which has a row since its first job started."""


def _moved(values: Sequence[float]) -> dict[str, float]:
    """Return the parameters that update a mean with all values, one after another."""
    first, weight, new = values[0], (1 - NEWEST) ** len(values), 0.0
    for value in values:
        new = new * (1 - NEWEST) + value * NEWEST
    return {"first": first, "left": weight, "new": new}


class LastSeen:
    """Collects one commit's observations of queues, and writes them once at its end."""

    def __init__(self, connection: Connection, time: float) -> None:
        self._connection = connection
        self._time = time
        self._queues: dict[str, set[str]] = {column: set() for column in _COLUMNS}
        self._runs: defaultdict[str, list[float]] = defaultdict(list)

    def moved(self, kind: Kind, target: State, record: Mapping[str, Any]) -> None:
        """Record a move: a running job has started, a running pilot has called."""
        if (kind, target) == ("job", JobState.RUNNING):
            self._queues["last_start"].add(record["queue"])
        if (kind, target) == ("pilot", PilotState.RUNNING):
            self._queues["last_pilot"].add(record["queue"])

    def measured(self, queue: str, changes: Mapping[str, Any]) -> None:
        """Record how long a queue's job ran. Ignore failed jobs: they may end early."""
        if (run := changes.get("wall_seconds")) and not changes.get("error"):
            self._runs[queue].append(run)

    def touched(self, touch: Touch, record: Mapping[str, Any]) -> None:
        """Record a pilot's heartbeat, which is a call."""
        if touch.kind == "pilot" and "heartbeat" in touch.changes:
            self._queues["last_pilot"].add(record["queue"])

    def write(self) -> None:
        """Write this commit's times, and update the means with its runs."""
        for column, queues in self._queues.items():
            # If there is nothing to write, do not lock the row that all commits need.
            lately = self._lately(column, queues) if queues else set()
            rows = [{"queue": queue, column: self._time} for queue in sorted(queues - lately)]
            if rows:
                self._connection.execute(_SEEN[column], rows)
        if self._runs:
            rows = [{"queue": queue, **_moved(runs)} for queue, runs in sorted(self._runs.items())]
            self._connection.execute(_MEASURED[dialect_of(self._connection)], rows)

    def _lately(self, column: str, queues: set[str]) -> set[str]:
        values = {"queues": sorted(queues), "time": self._time - REPORTED_AFTER}
        return {queue for (queue,) in raw_rows(self._connection, _LATELY[column], **values)}
