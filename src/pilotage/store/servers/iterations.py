"""Iterations of steps that run once per period, however many processes decide (P2)."""

from sqlalchemy import Column, Connection, Double, String, Table, bindparam, select

from pilotage.model.documents.decision import Begin
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.rows import raw_rows

iterations = Table(
    "iterations",
    metadata,
    Column("step", String, primary_key=True),
    Column("time", Double, nullable=False),
)

MATCHES_BEGIN = "matches-begin"
"""The only time of these that may lie ahead: before it no pilot gets a job of a restored store."""

_i = iterations.c
_LAST = select(_i.time).where(_i.step == bindparam("step"))
# Two servers that start together note the first time of the same name.
_NOTE = upsert(iterations, ["step"], ["step", "time"], replaced(["time"]))


def last(connection: Connection, step: str) -> float | None:
    """Return the start of a step's last iteration in s since 1970 UTC; None if there was none."""
    rows = raw_rows(connection, _LAST, step=step)
    return rows[0][0] if rows else None


def begin(connection: Connection, iteration: Begin, time: float) -> bool:
    """Begin an iteration. Return False if another one has begun since the decision."""
    if last(connection, iteration.step) != iteration.last:
        return False
    note(connection, iteration.step, time)
    return True


def note(connection: Connection, step: str, time: float) -> None:
    """Record that something happened, replacing the last record."""
    connection.execute(_NOTE, {"step": step, "time": time})
