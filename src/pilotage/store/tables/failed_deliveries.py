"""Deliveries that failed through a storage, by movers and pilots: table, writing, reading, deletion (F4)."""

from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import Column, Connection, Double, Integer, String, Table, bindparam, delete, select

from pilotage.model.records.storage_rests import End, FailedDelivery
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.sets import raw_rows

failed_deliveries = Table(
    "failed_deliveries",
    metadata,
    Column("transfer", Id, primary_key=True, autoincrement=False),
    Column("job", Id, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("task", Id, nullable=False),
    Column("node", String, nullable=False),
    Column("file", String, nullable=False),
    Column("source", String, nullable=False),
    Column("destination", String, nullable=False),
    Column("time", Double, nullable=False),
    Column("error", String, nullable=False),
)

KEPT = 7 * 86400.0
"""Seconds for which a failure is kept: many times the longest pause."""

MOST_OF_AN_END = 100
"""Most failures kept per storage or pair: enough for the longest pause."""

_f = failed_deliveries.c
_COLUMNS = tuple(field.name for field in fields(FailedDelivery))
_ALL = select(*(_f[name] for name in _COLUMNS)).order_by(_f.time, _f.transfer, _f.job, _f.attempt)
_OLD = delete(failed_deliveries).where(_f.time < bindparam("before"))
_AT_END = (_f.source == bindparam("its_source"), _f.destination == bindparam("its_destination"))
_CLEAR = delete(failed_deliveries).where(*_AT_END)
_other = failed_deliveries.alias()
# Null if there are fewer: no time is below null, so nothing is deleted.
_NEWEST = (
    select(_other.c.time)
    .where(_other.c.source == bindparam("its_source"), _other.c.destination == bindparam("its_destination"))
    .order_by(_other.c.time.desc())
    .limit(1)
    .offset(MOST_OF_AN_END - 1)
    .scalar_subquery()
)
_TOO_MANY = _CLEAR.where(_f.time < _NEWEST)


def write(connection: Connection, found: Sequence[FailedDelivery]) -> None:
    """Write failures. Delete old or excess ones."""
    rows = [tuple(getattr(one, name) for name in _COLUMNS) for one in found]
    bulk.insert(connection, failed_deliveries, _COLUMNS, rows, once=True)
    connection.execute(_OLD, {"before": max(one.time for one in found) - KEPT})
    connection.execute(_TOO_MANY, _values({one.end for one in found}))


def clear(connection: Connection, ends: Sequence[End]) -> None:
    """Forget the failures at these ends, after a delivery there or at a person's request."""
    connection.execute(_CLEAR, _values(set(ends)))


def everything(connection: Connection) -> tuple[FailedDelivery, ...]:
    """Return all counting failures, oldest first."""
    rows = raw_rows(connection, _ALL)
    return tuple(FailedDelivery(**dict(zip(_COLUMNS, row, strict=True))) for row in rows)


def _values(ends: set[End]) -> list[dict[str, str]]:
    return [{"its_source": source, "its_destination": destination} for source, destination in sorted(ends)]
