"""Every change of state leaves an event: which record, from what to what, when, why and by whom."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Double, Index, Integer, String, Table

from pilotage.model.states import STATES, Kind, State

from . import bulk
from .columns import Id, metadata, text_column

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("kind", String, nullable=False),
    Column("record", Id, nullable=False),
    Column("task", Id),
    Column("attempt", Integer, nullable=False),
    Column("source", String),
    Column("target", String, nullable=False),
    Column("time", Double, nullable=False),
    text_column("cause"),
    text_column("actor"),
    Column("decision", Id),
    Index("events_by_record", "kind", "record"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One transition: when, why, by whom; ``attempt`` is the one before the transition."""

    time: float
    source: State | None
    target: State
    cause: str
    actor: str
    attempt: int


_COLUMNS = ("kind", "record", "task", "attempt", "source", "target", "time", "cause", "actor", "decision")


class Events:
    """Gathers the events of one commit, and writes them once at its end, in their order."""

    def __init__(self, time: float, actor: str) -> None:
        self._time = time
        self._actor = actor
        self._rows: list[tuple[Any, ...]] = []

    def add(
        self,
        kind: Kind,
        record: int,
        task: int | None,
        attempt: int,
        source: State | None,
        target: State,
        cause: str,
        decision: int | None = None,
    ) -> None:
        """Note that a record came into a state; ``source`` is None where it came into being."""
        row = (kind, record, task, attempt, source, target, self._time, cause, self._actor, decision)
        self._rows.append(row)

    def write(self, connection: Connection) -> None:
        """Write what was gathered."""
        bulk.insert(connection, events, _COLUMNS, self._rows)


def shown(row: Any) -> EventView:
    """Make the view of a row of :data:`events`."""
    states = STATES[row.kind]
    return EventView(
        time=row.time,
        source=None if row.source is None else states(row.source),
        target=states(row.target),
        cause=row.cause,
        actor=row.actor,
        attempt=row.attempt,
    )
