"""Circuit breakers that the events have told of: table, reading, and noting changes.

Breakers follow from failures, and open and close as time passes. A row says what the stream of events has
told of one. So one event tells each change, however many servers look.
"""

from collections.abc import Iterable, Iterator, Mapping

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from pilotage.model.circuit_breakers.changes import BreakerChange, BreakerState, NotedKey
from pilotage.store.database.columns import id_column, metadata, text_column
from pilotage.store.database.rows import raw_rows
from pilotage.store.tables.numbers import Numbers

noted_breakers = Table(
    "noted_breakers",
    metadata,
    id_column(),
    Column("kind", String, nullable=False),
    text_column("place"),
    text_column("part"),
    text_column("vo"),
    text_column("owner"),
    Column("task", BigInteger, nullable=False),
    Column("state", String, nullable=False),
)

BREAKER = "breaker"
"""The kind of their events, and of their numbers."""

_b = noted_breakers.c
_KEY = ("kind", "place", "part", "vo", "owner", "task")
_ALL = select(*(_b[name] for name in (*_KEY, "state", "id")))
_SET = update(noted_breakers).where(_b.id == bindparam("number")).values(state=bindparam("now"))
_DROP = delete(noted_breakers).where(_b.id == bindparam("number"))


def noted(connection: Connection) -> Mapping[NotedKey, tuple[BreakerState, int]]:
    """Return state and number of each breaker that is not closed."""
    rows = raw_rows(connection, _ALL)
    return {_key(row): (row[6], int(row[7])) for row in rows}


def note(
    connection: Connection, changes: Iterable[BreakerChange], numbers: Numbers
) -> Iterator[tuple[BreakerChange, int]]:
    """Note changes from states that are noted. Yield each with the number of its breaker."""
    known = noted(connection)
    for change in changes:
        state, number = known.get((change.key, change.whose), ("closed", 0))
        if state != change.source:
            continue
        if state == "closed":
            number = numbers.take(BREAKER, 1).start
            values = dict(zip(_KEY, (*change.key, *change.whose), strict=True))
            connection.execute(insert(noted_breakers), {**values, "id": number, "state": change.target})
        elif change.target == "closed":
            connection.execute(_DROP, {"number": number})
        else:
            connection.execute(_SET, {"number": number, "now": change.target})
        yield change, number


def _key(row: tuple[object, ...]) -> NotedKey:
    kind, place, part, vo, owner, task = row[:6]
    return (kind, place, part), (vo, owner, task)  # type: ignore[return-value]
