"""Last calls of pilots and starts of jobs at each queue, and what its jobs took: for B9, B12, B26 and E2."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
_MEASURED = upsert(
    queue_reports,
    ["queue"],
    ["queue", *_MEANS],
    {
        column: f"coalesce(queue_reports.{column}, :first_{column}) * :left_{column} + :new_{column}"
        for column in _MEANS
    },
)


def _moved(means: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
    """The parameters by which means move, as if each value had come alone; none leave a mean as it is."""
    found: dict[str, float | None] = {}
    for column, values in means.items():
        first, left, new = values[0] if values else None, (1 - NEWEST) ** len(values), 0.0
        for value in values:
            new = new * (1 - NEWEST) + value * NEWEST
        found |= {f"first_{column}": first, f"left_{column}": left, f"new_{column}": new}
        found[column] = None if first is None else first * left + new
    return found


class LastSeen:
    """Gathers what one commit tells of queues; written once at its end."""

    def __init__(self, connection: Connection, time: float) -> None:
        self._connection = connection
        self._time = time
        self._queues: dict[str, set[str]] = {column: set() for column in _COLUMNS}
        self._measured: defaultdict[str, dict[str, list[float]]] = defaultdict(
            lambda: {column: [] for column in _MEANS}
        )

    def moved(self, kind: Kind, target: State, record: Mapping[str, Any]) -> None:
        """Note a move: a job that runs has started, a pilot that runs has called."""
        if (kind, target) == ("job", JobState.RUNNING):
            self._queues["last_start"].add(record["queue"])
        if (kind, target) == ("pilot", PilotState.RUNNING):
            self._queues["last_pilot"].add(record["queue"])

    def measured(self, queue: str, changes: Mapping[str, Any]) -> None:
        """Note the disk I/O that a job of a queue had, in kB/s per core, and how long it ran, as far as told.

        The time of a failed one says nothing of others.
        """
        if (disk_io := changes.get("disk_io")) is not None:
            self._measured[queue]["disk_io"].append(disk_io)
        if (run := changes.get("wall_seconds")) and not changes.get("error"):
            self._measured[queue]["mean_run"].append(run)

    def touched(self, touch: Touch, record: Mapping[str, Any]) -> None:
        """Note a pilot's heartbeat, which is a call."""
        if touch.kind == "pilot" and "heartbeat" in touch.changes:
            self._queues["last_pilot"].add(record["queue"])

    def write(self) -> None:
        """Replace earlier times by this commit's, and let its measurements into the means."""
        if self._measured:
            rows = [{"queue": queue, **_moved(means)} for queue, means in sorted(self._measured.items())]
            self._connection.execute(_MEASURED, rows)
        for column, queues in self._queues.items():
            # Whoever finds that nothing is to be written must not lock the row that all commits meet at.
            lately = self._lately(column, queues) if queues else set()
            rows = [{"queue": queue, column: self._time} for queue in sorted(queues - lately)]
            if rows:
                self._connection.execute(_SEEN[column], rows)

    def _lately(self, column: str, queues: set[str]) -> set[str]:
        values = {"queues": sorted(queues), "time": self._time - REPORTED_AFTER}
        return {queue for (queue,) in raw_rows(self._connection, _LATELY[column], **values)}
