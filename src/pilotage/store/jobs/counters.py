"""Numbers of records by state, kept by the commit, so that no pass counts records.

On PostgreSQL commits that only move jobs write their differences into ``job_deltas``, a row each, so that
they do not wait for each other at a counter. ``counts`` reads both. The next commit that runs alone adds the
differences to the counters.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    String,
    Table,
    bindparam,
    func,
    select,
    text,
)

from pilotage.model.records.counters import (
    COUNTERS,
    JOBS_BY_QUEUE,
    JOBS_BY_TASK,
    MATCHES_BY_SITE,
    PILOTS_BY_SITE,
    Claim,
)
from pilotage.model.records.states import STATES, JobState, Kind, State
from pilotage.model.values.slot_parts import parts_of
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.dialects import POSTGRESQL, AnyConnection, WithDeltas, dialect_of
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs.task_queues import LINE_COLUMNS, write_lines

counters = Table(
    "counters",
    metadata,
    Column("counter", String, primary_key=True),
    Column("first", String, primary_key=True),
    Column("second", String, primary_key=True),
    Column("state", String, primary_key=True),
    Column("count", Integer, nullable=False),
    sqlite_with_rowid=False,
)

# A job that moves to another queue leaves two rows: one without a target, and one without a source.
job_deltas = Table(
    "job_deltas",
    metadata,
    Column("queue", String, nullable=False),
    Column("share", String, nullable=False),
    Column("task", Id, nullable=False),
    Column("requirements", String, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("source", String, nullable=False),
    Column("target", String, nullable=False),
    Column("count", Integer, nullable=False),
)


# Use one type for all, or PostgreSQL reads every row of a counter for each of its keys.
_DELTAS = " UNION ALL ".join(
    f"SELECT '{name}', {first}, {second}, {state}, {sign}count FROM job_deltas WHERE {state} <> ''"
    for name, first, second in ((JOBS_BY_QUEUE, "queue", "share"), (JOBS_BY_TASK, "task::varchar", "''"))
    for state, sign in (("source", "-"), ("target", ""))
)
counts = WithDeltas("counts", counters, _DELTAS)
"""The counters, including differences that are not added yet."""

CounterKey = tuple[str, str]
"""The values of a counter's columns as text. The second is empty if there is only one."""

_c = counts.c
_KEY = ("counter", "first", "second", "state")

MATCHED = "matched"
"""The state in rows of matches."""

KEY_COLUMNS: dict[Kind, tuple[str, ...]] = {
    kind: tuple(
        dict.fromkeys(
            (*(name for of, columns in COUNTERS.values() if of == kind for name in columns),)
            + (LINE_COLUMNS if kind == "job" else ())
        )
    )
    for kind in STATES
}
"""The columns that count records of a kind."""

_POSITIONS: dict[Kind, list[tuple[str, tuple[int, ...]]]] = {
    kind: [
        (name, tuple(KEY_COLUMNS[kind].index(column) for column in columns))
        for name, (of, columns) in COUNTERS.items()
        if of == kind
    ]
    for kind in KEY_COLUMNS
}
_LINE = tuple(KEY_COLUMNS["job"].index(name) for name in LINE_COLUMNS)
_SUMS = (
    select(_c.first, _c.second, _c.state, func.sum(_c.count))
    .where(_c.counter == bindparam("counter"))
    .group_by(_c.first, _c.second, _c.state)
)
_OF_COUNTER, _OF_KEYS = _SUMS, _SUMS.where(among(_c.first, "firsts"))
_FOLDED = text(
    "WITH gone AS (DELETE FROM job_deltas RETURNING *)"
    f" SELECT {', '.join(KEY_COLUMNS['job'])}, source, target, SUM(count) FROM gone"
    f" GROUP BY {', '.join(KEY_COLUMNS['job'])}, source, target"
)


def key(values: Sequence[Any]) -> CounterKey:
    """Return the values of a counter's columns in the table's form: the first, and the others joined."""
    first, *rest = values
    return str(first), " ".join(str(value) for value in rest)


class Differences:
    """The differences of one commit, written once at its end."""

    def __init__(self) -> None:
        self._deltas: defaultdict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
        self._lines: Counter[tuple[Any, ...]] = Counter()
        self._activated: set[str] = set()
        self._keys: dict[tuple[Kind, tuple[Any, ...]], list[tuple[str, CounterKey]]] = {}
        self._moves: Counter[tuple[Kind, tuple[Any, ...], tuple[Any, ...], State, State]] = Counter()

    def add(self, kind: Kind, values: Sequence[Any], state: str, count: int) -> None:
        """Count records of a kind with these values of ``KEY_COLUMNS``."""
        values = tuple(values)
        for name, (first, second) in self._keys.get((kind, values)) or self._keys_of(kind, values):
            self._deltas[name, first][second, state] += count
        if kind == "job" and state == JobState.ACTIVATED:
            line = tuple([values[position] for position in _LINE])
            self._lines[line] += count
            if count > 0:
                self._activated.add(line[0])

    def _keys_of(self, kind: Kind, values: tuple[Any, ...]) -> list[tuple[str, CounterKey]]:
        keys = self._keys[kind, values] = [
            (name, key([values[position] for position in positions])) for name, positions in _POSITIONS[kind]
        ]
        return keys

    def moved(
        self,
        kind: Kind,
        before: Sequence[Any],
        after: Sequence[Any],
        source: State,
        target: State,
        count: int,
    ) -> None:
        """Count moved records, given their key columns ``before`` and ``after``."""
        # Thousands move in the same way, one by one: add them up only when a caller needs the sums.
        self._moves[kind, tuple(before), tuple(after), source, target] += count

    def _spread(self) -> None:
        """Add up the moves since the last time."""
        moves, self._moves = self._moves, Counter()
        for (kind, before, after, source, target), count in moves.items():
            self.add(kind, before, str(source), -count)
            self.add(kind, after, str(target), count)

    def write(self, connection: AnyConnection) -> None:
        """Add the differences to the tables. Delete rows that reach 0."""
        self._spread()
        changed = [
            (name, first, second, state, count)
            for (name, first), deltas in self._deltas.items()
            for (second, state), count in deltas.items()
            if count
        ]
        bulk.add(connection, counters, _KEY, "count", changed)
        write_lines(connection, self._lines, self._activated)


class Deltas(Differences):
    """Differences, and the counters that claims read. Claims see a difference immediately."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._stored: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
        self._whole: set[str] = set()

    def fold(self) -> None:
        """Add the differences that other commits left. The caller must be the only writer."""
        if dialect_of(self._connection) is not POSTGRESQL:
            return
        for *values, source, target, count in self._connection.execute(_FOLDED):
            if source:
                self.add("job", values, source, -int(count))
            if target:
                self.add("job", values, target, int(count))

    def look_up(self, claims: Iterable[Claim]) -> None:
        """Read all counters of these claims. They stay unchanged, because the caller is the only writer."""
        keys: dict[str, set[str]] = defaultdict(set)
        for claim in claims:
            firsts = [first for first, *_ in (claim.key, *claim.others)]
            if None in firsts:
                self._whole.add(claim.counter)
            else:
                named = {str(first) for first in firsts}
                keys[claim.counter] |= {
                    first for first in named if (claim.counter, first) not in self._stored
                }
        for counter, missing in keys.items():
            self._stored |= {(counter, first): {} for first in missing}
            values = {"counter": counter, "firsts": sorted(missing)}
            self._read(counter, raw_rows(self._connection, _OF_KEYS, **values))
        for counter in self._whole:
            self._read(counter, raw_rows(self._connection, _OF_COUNTER, counter=counter))

    def _read(self, counter: str, rows: Iterable[Any]) -> None:
        for first, second, state, count in rows:
            self._stored.setdefault((counter, first), {})[second, state] = int(count)

    def room(self, claims: Sequence[Claim], records: int) -> int:
        """Return how many of this number of ``records`` fit all claims. Call ``look_up`` first."""
        rooms = [(claim.limit - self.count_of(claim)) // (claim.takes or 1) for claim in claims]
        return max(0, min([records, *rooms]))

    def count_of(self, claim: Claim) -> int:
        """Return the count of a claim. Call ``look_up`` first.

        After a new advertisement, claims of older ones have no room.
        """
        if claim.counter == MATCHES_BY_SITE:
            site, number = map(str, claim.key)
            return self.matches(site).get(number, claim.limit + 1) - 1
        return self._counted(claim)

    def matches(self, site: str) -> dict[str, int]:
        """Return one plus the matches, by the number of the site's last advertisement.

        Call ``look_up`` first.
        """
        place, counted = (MATCHES_BY_SITE, site), Counter[str]()
        for (number, _), count in (*self._stored[place].items(), *self._deltas.get(place, {}).items()):
            counted[number] += count
        return {number: count for number, count in counted.items() if count}

    def count_matches(self, claims: Iterable[Claim], count: int) -> None:
        """Count jobs as matched since the advertisements that these claims name, once for each."""
        for site, number in {claim.key for claim in claims if claim.counter == MATCHES_BY_SITE}:
            self._deltas[MATCHES_BY_SITE, str(site)][str(number), MATCHED] += count

    def advertised(self, site: str) -> int:
        """Start counting matches from scratch.

        Return the number of the advertisement. Its row begins with 1.
        """
        before = self.matches(site)
        for number, count in before.items():
            self._deltas[MATCHES_BY_SITE, site][number, MATCHED] -= count
        following = 1 + max(map(int, before), default=0)
        # A row that reaches 0 is deleted, and the advertisement's number with it. So begin with 1.
        self._deltas[MATCHES_BY_SITE, site][str(following), MATCHED] += 1
        return following

    def _counted(self, claim: Claim) -> int:
        self._spread()
        if claim.others or len(claim.key) > len(("first", "second")):
            return self._counted_together(claim)
        first, second = (None if part is None else str(part) for part in (*claim.key, None)[:2])
        if first is None:
            counts = [part for (name, _), part in self._stored.items() if name == claim.counter]
            counts += [part for (name, _), part in self._deltas.items() if name == claim.counter]
        else:
            place = (claim.counter, first)
            counts = [self._stored[place], self._deltas.get(place, {})]
        if claim.takes:
            is_of_pilots = claim.counter == PILOTS_BY_SITE
            return sum(
                n * (int(size) if is_of_pilots else parts_of(size, claim.slot))
                for part in counts
                for (size, state), n in part.items()
                if state in claim.states
            )
        if second is not None:
            return sum([part.get((second, state), 0) for part in counts for state in claim.states])
        return sum([n for part in counts for (_, state), n in part.items() if state in claim.states])

    def _counted_together(self, claim: Claim) -> int:
        """Return the sum over the rows of any of a claim's keys, each row once."""
        keys = (claim.key, *claim.others)
        if all(first is not None and not any(rest) for first, *rest in keys):
            places = {(claim.counter, str(first)) for first, *_ in keys}
            return sum(
                n
                for place in places
                for part in (self._stored[place], self._deltas.get(place, {}))
                for (_, state), n in part.items()
                if state in claim.states
            )
        return sum(
            n
            for parts in (self._stored, self._deltas)
            for (name, first), part in parts.items()
            if name == claim.counter
            for (second, state), n in part.items()
            if state in claim.states and any(_is_of(key, first, second) for key in keys)
        )


def _is_of(key: Sequence[str | int | None], first: str, second: str) -> bool:
    """Return whether a row matches a key. A missing value in the key matches any."""
    values = (first, *second.split(" "))
    return all(part is None or str(part) == value for part, value in zip(key, values, strict=True))


def fold(connection: Connection) -> None:
    """Add to the counters the differences of commits that ran beside others. Call it as the only writer."""
    deltas = Deltas(connection)
    deltas.fold()
    deltas.write(connection)


class LightDeltas(Deltas):
    """The differences of a commit that only moves jobs, and runs beside others. They are added later."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._rows: list[tuple[Any, ...]] = []

    def moved(
        self,
        kind: Kind,
        before: Sequence[Any],
        after: Sequence[Any],
        source: State,
        target: State,
        count: int,
    ) -> None:
        """Record moved jobs. Their key columns stay the same."""
        if kind != "job" or list(before) != list(after):
            raise ValueError("a light commit only moves jobs, and keeps their key columns")
        self._rows.append((*before, source, target, count))

    def write(self, connection: AnyConnection) -> None:
        """Write a row for each difference."""
        bulk.insert(connection, job_deltas, (*KEY_COLUMNS["job"], "source", "target", "count"), self._rows)
