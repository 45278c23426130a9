"""When a queue last saw a pilot call and a job start, kept by the commit for B9 and B26."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, Double, String, Table, func
from sqlalchemy.dialects import postgresql, sqlite

from pilotage.model.decision import Touch
from pilotage.model.states import JobState, Kind, PilotState, State

from .columns import metadata

queue_reports = Table(
    "queue_reports",
    metadata,
    Column("queue", String, primary_key=True),
    Column("last_pilot", Double),
    Column("last_start", Double),
)

_COLUMNS = ("last_pilot", "last_start")
_UPSERTS = {
    name: insert(queue_reports)
    for name, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
}
_SEEN = {
    (name, column): upsert.on_conflict_do_update(
        index_elements=[queue_reports.c.queue],
        set_={column: upsert.excluded[column]},
        where=func.coalesce(queue_reports.c[column], 0) < upsert.excluded[column],
    )
    for name, upsert in _UPSERTS.items()
    for column in _COLUMNS
}


class LastSeen:
    """Gathers what one commit tells of queues; written once at its end."""

    def __init__(self, connection: Connection, time: float) -> None:
        self._connection = connection
        self._time = time
        self._queues: dict[str, set[str]] = {column: set() for column in _COLUMNS}

    def moved(self, kind: Kind, target: State, record: Mapping[str, Any]) -> None:
        """Note a move: a job that runs has started, a pilot that runs has called."""
        if (kind, target) == ("job", JobState.RUNNING):
            self._queues["last_start"].add(record["queue"])
        if (kind, target) == ("pilot", PilotState.RUNNING):
            self._queues["last_pilot"].add(record["queue"])

    def touched(self, touch: Touch, record: Mapping[str, Any]) -> None:
        """Note a pilot's heartbeat, which is a call."""
        if touch.kind == "pilot" and "heartbeat" in touch.changes:
            self._queues["last_pilot"].add(record["queue"])

    def write(self) -> None:
        """Replace earlier times by this commit's."""
        for column, queues in self._queues.items():
            if queues:
                statement = _SEEN[self._connection.dialect.name, column]
                rows = [{"queue": queue, column: self._time} for queue in sorted(queues)]
                self._connection.execute(statement, rows)
