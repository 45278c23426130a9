"""Circuit breakers: table, writing, reading, lifting (P6, P8, P12, F2, F4), and the states in events.

A row has facts about a breaker that no other table has: failed deliveries at a storage (F4), as JSON, and
when an operator lifted it. The state is computed: for queues and nodes also from failed attempts, for servers
from pilots. It changes with time. A row of ``noted_breakers`` has the state in the last event about a
breaker. So each change makes one event, even if several servers see it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from pilotage.model.circuit_breakers.breaker import Key, Kind, LiftedBreaker
from pilotage.model.circuit_breakers.changes import BreakerChange, BreakerState, NotedKey
from pilotage.model.circuit_breakers.storages import End, FailedDelivery
from pilotage.store.database.columns import id_column, metadata, text_column
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.rows import raw_rows
from pilotage.store.history.numbers import Numbers

circuit_breakers = Table(
    "circuit_breakers",
    metadata,
    Column("kind", String, primary_key=True),
    Column("place", String, primary_key=True),
    Column("part", String, primary_key=True),
    text_column("failures"),
    Column("lifted", Double),
)

KEPT = 7 * 86400.0
"""Seconds for which a failure, or a lift, is kept: many times the longest that a breaker is open."""

MOST_OF_A_STORAGE = 100
"""Failures that are kept of a storage, or between two: enough for the longest that its breaker is open."""

STORAGE: Kind = "storage"

_b = circuit_breakers.c
_KEY = ("kind", "place", "part")
_SAVE = upsert(circuit_breakers, _KEY, (*_KEY, "failures"), replaced(["failures"]))
_LIFT = upsert(circuit_breakers, _KEY, (*_KEY, "lifted"), replaced(["lifted"]))
_CLEAR = delete(circuit_breakers).where(
    _b.kind == STORAGE, _b.place == bindparam("its_place"), _b.part == bindparam("its_part")
)
_FAILURES = select(_b.failures).where(_b.kind == STORAGE)
_LIFTED = select(_b.kind, _b.place, _b.part, _b.lifted).where(_b.lifted.is_not(None))
_OLD = delete(circuit_breakers).where(_b.lifted < bindparam("before"))


def write(connection: Connection, new: Sequence[FailedDelivery]) -> None:
    """Write each failed delivery once. Delete old ones, and the oldest if there are too many."""
    by_number = {_number(failure): failure for failure in (*new, *failed_deliveries(connection))}
    oldest = max(failure.time for failure in new) - KEPT
    by_end: dict[End, list[FailedDelivery]] = {failure.end: [] for failure in by_number.values()}
    for failure in sorted(by_number.values(), key=_order):
        if failure.time >= oldest:
            by_end[failure.end].append(failure)
    rows = [
        {"kind": STORAGE, "place": end[0], "part": end[1], "failures": _text(row[-MOST_OF_A_STORAGE:])}
        for end, row in sorted(by_end.items())
        if row and not {*row}.isdisjoint(new)
    ]
    clear(connection, [end for end, row in by_end.items() if not row])
    connection.execute(_SAVE, rows)


def clear(connection: Connection, ends: Iterable[End]) -> None:
    """Delete the failures at these ends, after a delivery there or when an operator lifts the breakers."""
    rows = [{"its_place": source, "its_part": destination} for source, destination in sorted({*ends})]
    if rows:
        connection.execute(_CLEAR, rows)


def lift(connection: Connection, keys: Iterable[Key], time: float) -> None:
    """Lift breakers: from now on ignore failures until a time, in s since 1970 UTC."""
    keys = {*keys}
    clear(connection, [(place, part) for kind, place, part in keys if kind == STORAGE])
    rows = [
        {"kind": kind, "place": place, "part": part, "lifted": time}
        for kind, place, part in sorted(keys)
        if kind != STORAGE
    ]
    if rows:
        connection.execute(_LIFT, rows)
        connection.execute(_OLD, {"before": time - KEPT})


def failed_deliveries(connection: Connection) -> tuple[FailedDelivery, ...]:
    """Read the failures of storages that count, oldest first (F4)."""
    rows = raw_rows(connection, _FAILURES)
    failures = (FailedDelivery(**values) for (text,) in rows for values in json.loads(text))
    return tuple(sorted(failures, key=_order))


def lifted(connection: Connection) -> tuple[LiftedBreaker, ...]:
    """Read the breakers that operators lifted lately, by kind and place."""
    rows = sorted(raw_rows(connection, _LIFTED))
    return tuple(LiftedBreaker(kind=kind, place=(place, part), time=time) for kind, place, part, time in rows)


def _number(failure: FailedDelivery) -> tuple[int, int, int]:
    return failure.transfer, failure.job, failure.attempt


def _order(failure: FailedDelivery) -> tuple[float, int, int, int]:
    return (failure.time, *_number(failure))


def _text(row: Iterable[FailedDelivery]) -> str:
    return json.dumps([asdict(failure) for failure in row], ensure_ascii=False)


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

_n = noted_breakers.c
_NOTED_KEY = ("kind", "place", "part", "vo", "owner", "task")
_ALL = select(*(_n[name] for name in (*_NOTED_KEY, "state", "id")))
_SET = update(noted_breakers).where(_n.id == bindparam("number")).values(state=bindparam("now"))
_DROP = delete(noted_breakers).where(_n.id == bindparam("number"))


def noted(connection: Connection) -> Mapping[NotedKey, tuple[BreakerState, int]]:
    """Return state and number of each breaker that is not closed."""
    rows = raw_rows(connection, _ALL)
    return {_key(row): (row[6], int(row[7])) for row in rows}


def note(
    connection: Connection, changes: Iterable[BreakerChange], numbers: Numbers
) -> Iterator[tuple[BreakerChange, int]]:
    """Record changes that begin at the recorded state. Yield each with the number of its breaker."""
    states = noted(connection)
    for change in changes:
        state, number = states.get((change.key, change.whose), ("closed", 0))
        if state != change.source:
            continue
        if state == "closed":
            number = numbers.take(BREAKER, 1).start
            values = dict(zip(_NOTED_KEY, (*change.key, *change.whose), strict=True))
            connection.execute(insert(noted_breakers), {**values, "id": number, "state": change.target})
        elif change.target == "closed":
            connection.execute(_DROP, {"number": number})
        else:
            connection.execute(_SET, {"number": number, "now": change.target})
        yield change, number


def _key(row: tuple[object, ...]) -> NotedKey:
    kind, place, part, vo, owner, task = row[:6]
    return (kind, place, part), (vo, owner, task)  # type: ignore[return-value]
