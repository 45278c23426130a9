"""How many records are in which state, kept by the commit, so that no pass ever counts them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Integer, String, Table, bindparam, delete, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from pilotage.model.counters import COUNTERS
from pilotage.model.decision import Claim
from pilotage.model.states import Kind

from .columns import metadata

counters = Table(
    "counters",
    metadata,
    Column("counter", String, primary_key=True),
    Column("first", String, primary_key=True),
    Column("second", String, primary_key=True),
    Column("state", String, primary_key=True),
    Column("count", Integer, nullable=False),
)

Key = tuple[str, str]
"""The values of a counter's columns as text; the second is empty where it has only one."""

_c = counters.c
_KEY = (_c.counter, _c.first, _c.second, _c.state)

KEY_COLUMNS: dict[Kind, tuple[str, ...]] = {
    kind: tuple(
        dict.fromkeys(column for of, columns in COUNTERS.values() if of == kind for column in columns)
    )
    for kind in ("task", "job", "transfer", "pilot")
}
"""The columns by which records of a kind are counted."""

_POSITIONS: dict[Kind, list[tuple[str, tuple[int, ...]]]] = {
    kind: [
        (name, tuple(KEY_COLUMNS[kind].index(column) for column in columns))
        for name, (of, columns) in COUNTERS.items()
        if of == kind
    ]
    for kind in KEY_COLUMNS
}

_INSERTS = {
    name: insert(counters).values({column.name: bindparam(column.name) for column in counters.c})
    for name, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
}
_ADD = {
    name: insert.on_conflict_do_update(
        index_elements=list(_KEY), set_={"count": _c.count + insert.excluded.count}
    )
    for name, insert in _INSERTS.items()
}
_DROP_EMPTY = delete(counters).where(
    *(column == bindparam(f"the_{column.name}") for column in _KEY), _c.count == 0
)


def key(values: Sequence[Any]) -> Key:
    """The values of a counter's columns as the table has them."""
    first, second = (*values, "")[:2]
    return str(first), str(second)


class Deltas:
    """The differences that one commit makes, written once at its end; claims see them at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._deltas: defaultdict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
        self._sums: dict[tuple[Any, ...], int] = {}

    def add(self, kind: Kind, values: Sequence[Any], state: str, count: int) -> None:
        """Count records of a kind whose :data:`KEY_COLUMNS` have these values."""
        for name, positions in _POSITIONS[kind]:
            first, second = key([values[position] for position in positions])
            self._deltas[name, first][second, state] += count

    def room(self, claims: Sequence[Claim], wanted: int) -> int:
        """How many of ``wanted`` records fit all claims."""
        return max(0, min([wanted, *(claim.limit - self._taken(claim) for claim in claims)]))

    def _taken(self, claim: Claim) -> int:
        first, second = (None if part is None else str(part) for part in (*claim.key, None)[:2])
        identity = (claim.counter, first, second, claim.states)
        if identity not in self._sums:
            self._sums[identity] = self._stored(claim, first, second)
        return self._sums[identity] + sum(
            count
            for deltas in self._touched(claim.counter, first)
            for (two, state), count in deltas.items()
            if state in claim.states and second in (None, two)
        )

    def _touched(self, counter: str, first: str | None) -> list[Counter[tuple[str, str]]]:
        if first is not None:
            return [self._deltas[counter, first]]
        return [deltas for (name, _), deltas in self._deltas.items() if name == counter]

    def _stored(self, claim: Claim, first: str | None, second: str | None) -> int:
        conditions = [_c.counter == claim.counter, _c.state.in_([str(state) for state in claim.states])]
        conditions += [_c.first == first] if first is not None else []
        conditions += [_c.second == second] if second is not None else []
        total = select(func.coalesce(func.sum(_c.count), literal(0))).where(*conditions)
        return int(self._connection.execute(total).scalar_one())

    def write(self) -> None:
        """Add the differences to the table; a row that comes to nothing is taken out."""
        changed = sorted(
            (name, first, second, state, count)
            for (name, first), deltas in self._deltas.items()
            for (second, state), count in deltas.items()
            if count
        )
        if not changed:
            return
        names = [column.name for column in _KEY]
        rows: list[dict[str, Any]] = [dict(zip((*names, "count"), row, strict=True)) for row in changed]
        self._connection.execute(_ADD[self._connection.dialect.name], rows)
        fallen = [{f"the_{name}": row[name] for name in names} for row in rows if row["count"] < 0]
        if fallen:
            self._connection.execute(_DROP_EMPTY, fallen)
