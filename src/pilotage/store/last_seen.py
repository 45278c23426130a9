"""Last calls of pilots and starts of jobs at each queue, and what its jobs took: for B9, B12, B26 and E2."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, Double, String, Table, bindparam, select

from pilotage.model.decision import Touch
from pilotage.model.states import JobState, Kind, PilotState, State

from .columns import metadata
from .sets import among, raw_rows
from .upserts import replaced, upsert

queue_reports = Table(
    "queue_reports",
    metadata,
    Column("queue", String, primary_key=True),
    Column("last_pilot", Double),
    Column("last_start", Double),
    Column("disk_io", Double),
    Column("mean_run", Double),
)

_COLUMNS = ("last_pilot", "last_start")

REPORTED_AFTER = 10.0
"""Seconds before a queue's last call or start is written down again: B9 and B26 look at hours."""

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
        where=f"coalesce(queue_reports.{column}, 0) < excluded.{column}",
    )
    for column in _COLUMNS
}

NEWEST = 0.05
"""Part of a queue's means that the newest job counts."""

_MEANS = ("disk_io", "mean_run")


def _moved_mean(column: str) -> str:
    old, new = f"queue_reports.{column}", f"excluded.{column}"
    # What was not measured leaves the mean as it is.
    return f"coalesce(coalesce({old}, {new}) * {1 - NEWEST} + {new} * {NEWEST}, {old})"


_MEASURED = upsert(
    queue_reports, ["queue"], ["queue", *_MEANS], {column: _moved_mean(column) for column in _MEANS}
)


class LastSeen:
    """Gathers what one commit tells of queues; written once at its end."""

    def __init__(self, connection: Connection, time: float) -> None:
        self._connection = connection
        self._time = time
        self._queues: dict[str, set[str]] = {column: set() for column in _COLUMNS}
        self._measured: list[dict[str, Any]] = []

    def moved(self, kind: Kind, target: State, record: Mapping[str, Any]) -> None:
        """Note a move: a job that runs has started, a pilot that runs has called."""
        if (kind, target) == ("job", JobState.RUNNING):
            self._queues["last_start"].add(record["queue"])
        if (kind, target) == ("pilot", PilotState.RUNNING):
            self._queues["last_pilot"].add(record["queue"])

    def measured(self, queue: str, changes: Mapping[str, Any]) -> None:
        """Note the disk I/O that a job of a queue had, in kB/s per core, and how long it ran.

        The time of a failed one says nothing of others.
        """
        if changes.get("disk_io") is not None:
            run = None if changes.get("error") else changes.get("wall_seconds")
            self._measured.append({"queue": queue, "disk_io": changes["disk_io"], "mean_run": run or None})

    def touched(self, touch: Touch, record: Mapping[str, Any]) -> None:
        """Note a pilot's heartbeat, which is a call."""
        if touch.kind == "pilot" and "heartbeat" in touch.changes:
            self._queues["last_pilot"].add(record["queue"])

    def write(self) -> None:
        """Replace earlier times by this commit's, and let its measurements into the means."""
        if self._measured:
            self._connection.execute(_MEASURED, self._measured)
        for column, queues in self._queues.items():
            # Whoever finds that nothing is to be written must not lock the row that all commits meet at.
            lately = self._lately(column, queues) if queues else set()
            rows = [{"queue": queue, column: self._time} for queue in sorted(queues - lately)]
            if rows:
                self._connection.execute(_SEEN[column], rows)

    def _lately(self, column: str, queues: set[str]) -> set[str]:
        values = {"queues": sorted(queues), "time": self._time - REPORTED_AFTER}
        return {queue for (queue,) in raw_rows(self._connection, _LATELY[column], **values)}
