"""Iterations of steps that run once per period, however many processes decide (P2)."""

from sqlalchemy import Column, Connection, Double, String, Table, bindparam, insert, select, update

from pilotage.model.documents.decision import Begin
from pilotage.store.database.columns import metadata
from pilotage.store.database.sets import raw_rows

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
_FIRST = insert(iterations)
_NEXT = update(iterations).where(_i.step == bindparam("of")).values(time=bindparam("began"))


def last(connection: Connection, step: str) -> float | None:
    """Return the start of a step's last iteration in s since 1970 UTC; None if there was none."""
    rows = raw_rows(connection, _LAST, step=step)
    return rows[0][0] if rows else None


def begin(connection: Connection, asked: Begin, time: float) -> bool:
    """Begin an iteration. Return False if another one has begun since the decision."""
    if last(connection, asked.step) != asked.last:
        return False
    if asked.last is None:
        connection.execute(_FIRST, {"step": asked.step, "time": time})
    else:
        connection.execute(_NEXT, {"of": asked.step, "began": time})
    return True


def note(connection: Connection, step: str, time: float) -> None:
    """Record that something happened, replacing the last record."""
    if not connection.execute(_NEXT, {"of": step, "began": time}).rowcount:
        connection.execute(_FIRST, {"step": step, "time": time})
