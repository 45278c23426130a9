"""The log of events: transitions of records in the order of their commits.

A row is for all records of one task that made the same transition in one commit. It has their numbers, and
the number of a meaning (what happened, why, and the actor) from their histories (``.history``). So an event
takes some fifty bytes, even if many jobs moved.

On SQLite the one writer numbers events, so numbers have the order of commits. On PostgreSQL a sequence
numbers them, and a later number may be committed earlier. So every writer takes a shared lock before its
first number, and releases it when its commit is visible. Readers wait for that (``history/event_log.py``).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from sqlalchemy import BigInteger, Column, Double, String, Table

from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.dialects import AnyConnection, dialect_of

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("time", Double, nullable=False),
    Column("meaning", Id, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("records", String, nullable=False),
)

SEQUENCE = "events_id_seq"
"""PostgreSQL's sequence of numbers of events."""

MOST_RECORDS = 1000
"""Most records of one event. More make further events."""

EventKind = Literal["task", "job", "transfer", "pilot", "breaker", "federation"]
LOGGED: frozenset[str] = frozenset(get_args(EventKind))
"""Kinds of records whose transitions are events."""

NO_TASK = 0
"""The task of events of records that belong to none."""

CHANGED_FEDERATION = "in force"
"""What an event says that a version of the federation is now."""

FORGOTTEN = "forgotten events"
"""The name under which the store keeps the number of the last deleted event."""

LOCK = "7236141, hashtext(current_schema())"
"""The advisory lock that writers of events share on PostgreSQL."""

WRITE = (
    f"WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({LOCK}))"
    " INSERT INTO events (time, meaning, task, records) SELECT new.* FROM turn,"
    " unnest(%s::float8[], %s::bigint[], %s::bigint[], %s::varchar[]) AS new"
)
"""The statement that writes events on PostgreSQL. The lock comes first: each row is numbered after it."""

_WRITE_HERE = "INSERT INTO events (time, meaning, task, records) VALUES (?, ?, ?, ?)"


class NewEvents:
    """The events of one commit, in the order of its changes. ``time`` is in s since 1970 UTC."""

    def __init__(self, time: float, are_kept: bool = True) -> None:
        self._time = time
        self._are_kept = are_kept
        self._groups: list[tuple[int, int, list[int]]] = []
        self._open: dict[tuple[int, int], int] = {}
        self._newest: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def note(self, kind: str, meaning: int, task: int, records: Sequence[int]) -> None:
        """Note that a kind's records made the transition of a meaning. All belong to ``task``, or to none."""
        newest = self._newest[kind]
        place = self._open.get((meaning, task))
        if place is None or any(newest.get(record, -1) >= place for record in records):
            # A record has made another transition since that event: keep their order.
            place = self._open[meaning, task] = len(self._groups)
            self._groups.append((meaning, task, []))
        self._groups[place][2].extend(records)
        newest.update(dict.fromkeys(records, place))

    @property
    def groups(self) -> Sequence[tuple[int, int, Sequence[int]]]:
        """Return the meaning, the task and the records of each event."""
        return self._groups

    def write(self, connection: AnyConnection) -> None:
        """Write the events."""
        rows = [
            (self._time, meaning, task, packed(records[first : first + MOST_RECORDS]))
            for meaning, task, records in self._groups
            for first in range(0, len(records), MOST_RECORDS)
        ]
        if not rows or not self._are_kept:
            return
        dialect = dialect_of(connection)
        dialect.run(connection, dialect.choose(_WRITE_HERE, WRITE), rows)


def packed(records: Iterable[int]) -> str:
    """Return numbers as text, in order: ``5-9 12``."""
    runs: list[list[int]] = []
    for record in sorted(records):
        if runs and record == runs[-1][1] + 1:
            runs[-1][1] = record
        else:
            runs.append([record, record])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def unpacked(text: str) -> Iterator[int]:
    """Yield the numbers of a text of ``packed``, or of numbers with blanks between them."""
    for run in text.split():
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)
