"""The only place that writes what decisions change: what still holds of one, in one transaction."""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Select, Update, bindparam, delete, insert, select, update

from pilotage.model.counters import COUNTERS
from pilotage.model.decision import (
    KINDS,
    Change,
    Claim,
    Committed,
    Create,
    Creation,
    Decision,
    Forget,
    Move,
    Touch,
)
from pilotage.model.documents import to_json
from pilotage.model.states import LIVE, Kind, State, is_allowed

from .counters import KEY_COLUMNS, Deltas
from .creation import Creator
from .errors import IllegalColumn, IllegalTransition
from .events import Events
from .sets import among
from .sightings import Sightings
from .tables import RECORDS, decisions

_STAGING = {"heartbeat", "wake_at", "error", "emergency", "priority", "started", "ended"}
_USED = {"cpu_seconds", "wall_seconds", "max_rss", "max_workdir"}
_OUTCOME = {"error", "exit_code", "started", "ended", *_USED}

WRITABLE: dict[Kind, frozenset[str]] = {
    "task": frozenset({"error", "measured"}),
    "job": frozenset({"queue", "pilot", "wake_at", *_OUTCOME}),
    "transfer": frozenset({"source", "source_path", *_STAGING}),
    "pilot": frozenset({"reference", "heartbeat", "error", "matched", "ended"}),
}
"""The columns that a decision may set."""

REPEATED_AFTER = 30.0
"""How long what a waiting task was told stands before it is told anew, in s."""

_UNMOVED = (decisions.c.moved.is_(False), among(decisions.c.task, "tasks"))
_SAID_LATELY = select(decisions.c.task).where(*_UNMOVED, decisions.c.time > bindparam("time"))
_FORGET_UNMOVED = delete(decisions).where(*_UNMOVED)


def check(decision: Decision) -> None:
    """Raises IllegalTransition, IllegalColumn or ValueError for what could never be right."""
    for change in decision.changes:
        if isinstance(change, Move | Create):
            _check_claims(change.claims)
        if isinstance(change, Move):
            _check_move(change, len(decision.choices))
        if isinstance(change, Move | Touch):
            _check_changes(change)


def _check_move(move: Move, choices: int) -> None:
    if not is_allowed(move.kind, move.source, move.target):
        raise IllegalTransition(move.kind, move.source, move.target)
    if move.choice is not None and not 0 <= move.choice < choices:
        raise ValueError(f"a move rests on choice {move.choice}, the decision has {choices}")


def _check_changes(change: Move | Touch) -> None:
    """A touch may not set what its record is counted by."""
    keys = KEY_COLUMNS[change.kind] if isinstance(change, Touch) else ()
    allowed = WRITABLE[change.kind] - set(keys)
    if not allowed.issuperset(change.changes):
        raise IllegalColumn(change.kind, set(change.changes) - allowed, allowed)
    if change.attempts is not None and len(change.attempts) != len(change.ids):
        raise ValueError(f"{len(change.attempts)} attempts given for {len(change.ids)} {change.kind}s")


def _check_claims(claims: Sequence[Claim]) -> None:
    for claim in claims:
        _, columns = COUNTERS.get(claim.counter, (None, ()))
        if not columns or len(claim.key) != len(columns):
            raise ValueError(f"there is no counter {claim.counter} by {len(claim.key)} columns")


Result = tuple[tuple[int, ...], tuple[int | None, ...]]
"""The ids of a change's records that were moved or touched, and of those that came into being."""


class Documents:
    """The reasons of a decision as they are stored, made before the transaction begins."""

    def __init__(self, decision: Decision) -> None:
        self.rows = [
            {
                "task": choice.task,
                "step": decision.step,
                "time": decision.time,
                "document": zlib.compress(to_json(choice)),
            }
            for choice in decision.choices
        ]


class Commit:
    """One decision being applied in one transaction."""

    def __init__(self, connection: Connection, decision: Decision, documents: Documents, actor: str) -> None:
        self._connection = connection
        self._decision = decision
        self._documents = documents
        self._actor = actor
        self._deltas = Deltas(connection)
        self._events = Events(connection, decision.time, actor)
        self._creator = Creator(connection, decision.time, self._deltas, self._events)
        self._sightings = Sightings(connection, decision.time)
        self._handed_back = 0
        self._ineffective: set[int] = set()
        self._effective: set[int] = set()

    def run(self) -> Committed:
        """Apply the changes in their order; returns what became of each."""
        self._first_document = self._next_document()
        results = [result for like in _alike(self._decision.changes) for result in self._apply(like)]
        self._save_documents()
        self._sightings.write()
        self._deltas.write()
        return Committed(
            accepted=tuple(accepted for accepted, _ in results),
            created=tuple(created for _, created in results),
            handed_back=self._handed_back,
        )

    def _apply(self, like: Sequence[Change]) -> list[Result]:
        """Changes that follow each other and are alike: several only where they are moves."""
        if isinstance(like[0], Create):
            return [((), self._create(like[0]))]
        if isinstance(like[0], Touch):
            return [(self._touch(like[0]), ())]
        if isinstance(like[0], Forget):
            self._creator.forget(like[0].replicas)
            return [((), ())]
        moves = [move for move in like if isinstance(move, Move)]
        return [
            (accepted, self._creations(move, set(accepted)) if move.creates else ())
            for move, accepted in zip(moves, self._move(moves), strict=True)
        ]

    def _move(self, moves: Sequence[Move]) -> list[tuple[int, ...]]:
        """The records of each move that make it: looked at together, and written together."""
        kind = moves[0].kind
        present = self._present(kind, [id_ for move in moves for id_ in move.ids], (moves[0].source,))
        taken: list[list[Any]] = []
        for move in moves:
            rows = _as_seen(present, move.ids, move.attempts)
            room = self._deltas.room(move.claims, len(rows)) if move.claims else len(rows)
            taken.append(rows[:room])
            self._handed_back += len(set(move.ids)) - len(taken[-1])
            self._note_choice(move, bool(taken[-1]))
            self._count(move, taken[-1])
            for row in taken[-1]:
                del present[row[0]]
        ids = [tuple(row[0] for row in rows) for rows in taken]
        self._write_moves([(move, accepted) for move, accepted in zip(moves, ids, strict=True) if accepted])
        return ids

    def _write_moves(self, moves: Sequence[tuple[Move, tuple[int, ...]]]) -> None:
        if not moves:
            return
        first = moves[0][0]
        self._events.moved(
            first.kind,
            [
                (ids, move.source, move.target, move.cause, self._document_of(move.choice))
                for move, ids in moves
            ],
        )
        columns = frozenset(first.changes) | {"state", "since"}
        values = [
            {f"new_{name}": value for name, value in move.changes.items()}
            | {"ids": ids, "new_state": str(move.target), "new_since": self._decision.time}
            for move, ids in moves
        ]
        self._connection.execute(_update(first.kind, columns, first.next_attempt), values)

    def _document_of(self, choice: int | None) -> int | None:
        return None if choice is None else self._first_document + choice

    def _count(self, move: Move, rows: Sequence[Any]) -> None:
        columns = KEY_COLUMNS[move.kind]
        for before, count in Counter(tuple(row[3:]) for row in rows).items():
            after = [move.changes.get(name, value) for name, value in zip(columns, before, strict=True)]
            self._deltas.add(move.kind, before, move.source, -count)
            self._deltas.add(move.kind, after, move.target, count)
            self._sightings.moved(move.kind, move.target, dict(zip(columns, after, strict=True)))

    def _touch(self, touch: Touch) -> tuple[int, ...]:
        present = self._present(touch.kind, touch.ids, LIVE[touch.kind])
        rows = _as_seen(present, touch.ids, touch.attempts)
        self._handed_back += len(set(touch.ids)) - len(rows)
        accepted = tuple(row[0] for row in rows)
        if accepted and touch.changes:
            values = {f"new_{name}": value for name, value in touch.changes.items()}
            statement = _update(touch.kind, frozenset(touch.changes), False)
            self._connection.execute(statement, {"ids": accepted, **values})
            columns = KEY_COLUMNS[touch.kind]
            for row in {tuple(row[3:]) for row in rows}:
                self._sightings.touched(touch, dict(zip(columns, row, strict=True)))
        return accepted

    def _present(self, kind: Kind, ids: Sequence[int], states: tuple[State, ...]) -> dict[int, Any]:
        """The records that are in one of the states: id, state, attempt, what they are counted by."""
        found = self._connection.execute(_rows(kind), {"ids": ids})
        return {row[0]: row for row in found if row[1] in states}

    def _creations(self, move: Move, accepted: set[int]) -> tuple[int | None, ...]:
        """What rests on records that moved comes into being; the rest of it does not."""
        resting = [(id_, record) for id_ in move.creates for record in move.creates[id_]]
        held = [record for id_, record in resting if id_ in accepted]
        ids = iter(self._creator.create(held, move.cause))
        return tuple(next(ids) if id_ in accepted else None for id_, _ in resting)

    def _create(self, create: Create) -> tuple[int | None, ...]:
        fits = self._fitting(create.records, create.claims)
        self._handed_back += fits.count(False)
        held = [record for record, fit in zip(create.records, fits, strict=True) if fit]
        ids = iter(self._creator.create(held, create.cause))
        return tuple(next(ids) if fit else None for fit in fits)

    def _fitting(self, records: Sequence[Creation], claims: Sequence[Claim]) -> list[bool]:
        """A claim bounds the records of the kind that its counter counts, the first of them first."""
        kinds = [KINDS.get(type(record)) for record in records]
        fits = [True] * len(records)
        for kind in {COUNTERS[claim.counter][0] for claim in claims}:
            counted = [index for index, of in enumerate(kinds) if of == kind]
            of_kind = [claim for claim in claims if COUNTERS[claim.counter][0] == kind]
            for index in counted[self._deltas.room(of_kind, len(counted)) :]:
                fits[index] = False
        return fits

    def _next_document(self) -> int:
        if not self._documents.rows:
            return 0
        highest = self._connection.execute(select(decisions.c.id).order_by(decisions.c.id.desc()).limit(1))
        return (highest.scalar() or 0) + 1

    def _note_choice(self, move: Move, effective: bool) -> None:
        if move.choice is not None:
            (self._effective if effective else self._ineffective).add(move.choice)

    def _save_documents(self) -> None:
        """A choice is kept unless every move that it is the reason of was handed back whole.

        Of those that move nothing, because the jobs only wait, a task has one, the newest: it is written
        anew when the last one is older than ``REPEATED_AFTER``.
        """
        dropped = self._ineffective - self._effective
        rows: list[dict[str, Any]] = [
            {
                "id": self._first_document + index,
                "actor": self._actor,
                "moved": index in self._effective,
                **row,
            }
            for index, row in enumerate(self._documents.rows)
            if index not in dropped
        ]
        unmoved = sorted({row["task"] for row in rows if not row["moved"]})
        if unmoved:
            before = {"tasks": unmoved, "time": self._decision.time - REPEATED_AFTER}
            said = set(self._connection.execute(_SAID_LATELY, before).scalars())
            rows = [row for row in rows if row["moved"] or row["task"] not in said]
            self._connection.execute(_FORGET_UNMOVED, {"tasks": sorted({*unmoved} - said)})
        if rows:
            self._connection.execute(insert(decisions), rows)


def _alike(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Runs of moves that set the same columns on the same transition; every other change for itself."""
    for _, run in groupby(enumerate(changes), key=lambda numbered: _likeness(*numbered)):
        yield [change for _, change in run]


def _likeness(number: int, change: Change) -> tuple[object, ...]:
    if not isinstance(change, Move) or change.creates:
        return (number,)
    return (change.kind, change.source, change.target, change.next_attempt, frozenset(change.changes))


def _as_seen(present: Mapping[int, Any], ids: Sequence[int], attempts: Sequence[int] | None) -> list[Any]:
    """The records that are still as a decision saw them, in its order."""
    if attempts is None:
        return [present[id_] for id_ in dict.fromkeys(ids) if id_ in present]
    wanted = dict(zip(ids, attempts, strict=True))
    return [present[id_] for id_ in wanted if id_ in present and present[id_][2] == wanted[id_]]


@cache
def _rows(kind: Kind) -> Select[Any]:
    """By number alone: with the state as a condition a planner may prefer to walk through all of a state."""
    columns = RECORDS[kind].c
    keys = [columns[name] for name in KEY_COLUMNS[kind]]
    return select(columns.id, columns.state, columns.attempt, *keys).where(among(columns.id, "ids"))


@cache
def _update(kind: Kind, names: frozenset[str], next_attempt: bool) -> Update:
    columns = RECORDS[kind].c
    values: dict[str, Any] = {
        name: bindparam(f"new_{name}", type_=columns[name].type) for name in sorted(names)
    }
    if next_attempt:
        values["attempt"] = columns.attempt + 1
    return update(RECORDS[kind]).where(among(columns.id, "ids")).values(values)
