"""The log of events: transitions of records in the order of their commits.

A row is for all records of one task that made the same transition in one commit. It has their numbers, and
the number of a meaning (what happened, why, and the actor) from their histories (``.history``). So an event
takes some fifty bytes, even if many jobs moved.

Numbers have the order of commits (``history/settled_numbers.py``).
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, get_args

from sqlalchemy import BigInteger, Column, Double, String, Table

from pilotage.model.documents.decision import KINDS, Create, Decision, Move, NoteBreakers, Touch
from pilotage.model.records.states import FIRST, JobState, TaskState
from pilotage.model.records.work import NewJob, NewTask
from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.dialects import AnyConnection, dialect_of
from pilotage.store.history.history import TransitionKind
from pilotage.store.history.settled_numbers import TURN

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
"""Kinds of records with transitions that are events."""

NO_TASK = 0
"""The task of events of records that belong to none."""

CHANGED_FEDERATION = "in force"
"""The state of a new version of the federation in its event."""

FORGOTTEN = "forgotten events"
"""The name of the stored number of the last deleted event."""

WRITE = (
    f"{TURN} INSERT INTO events (time, meaning, task, records) SELECT new.* FROM turn,"
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


log = logging.getLogger("pilotage.transitions")

Transition = tuple[TransitionKind, int, Sequence[int]]
"""A kind of transition, the task of its records or none, and their numbers."""


def log_transitions(transitions: Iterable[Transition], actor: str) -> None:
    """Log what a commit did: tasks, and jobs that failed, as information; the rest to debug."""
    for kind, task, records in transitions:
        level = logging.INFO if kind.kind == "task" or kind.target == JobState.FAILED else logging.DEBUG
        if not log.isEnabledFor(level):
            continue
        change = f"{kind.source} → {kind.target}" if kind.source else kind.target
        reason = f"{actor}: {kind.cause}" if kind.cause else actor
        about = {"task": task} if task != NO_TASK else {}
        for record in records:
            log.log(
                level,
                "%s %d: %s, by %s",
                kind.kind,
                record,
                change,
                reason,
                extra={**about, kind.kind: record},
            )


BY_A_PERSON = "a person asked for it"
"""Why records change without a transition, in events."""


def meanings(decision: Decision, actor: str) -> Iterator[TransitionKind]:
    """Yield the meanings of a decision's transitions, for the history of their records."""
    for change in decision.changes:
        if isinstance(change, NoteBreakers):
            for breaker in change.changes:
                yield TransitionKind.of("breaker", breaker.source, breaker.target, breaker.cause, actor)
        if isinstance(change, Move):
            yield TransitionKind.of(change.kind, change.source, change.target, change.cause, actor)
        if isinstance(change, Touch) and change.event:
            yield TransitionKind.of(change.kind, None, change.event, BY_A_PERSON, actor)
        if isinstance(change, Move | Create):
            creations = change.records if isinstance(change, Create) else chain(*change.creates.values())
            records = list(creations)
            for kind in {KINDS[type(record)] for record in records if type(record) in KINDS}:
                yield TransitionKind.of(kind, None, FIRST[kind], change.cause, actor)
            if any(isinstance(record, NewJob) and record.throttled for record in records):
                yield TransitionKind.of("job", None, JobState.THROTTLED, change.cause, actor)
            if any(isinstance(record, NewTask) and record.is_chained for record in records):
                yield TransitionKind.of("task", None, TaskState.WAITING, change.cause, actor)
