"""The only place that writes what decisions change: what still holds of one, in one transaction."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

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
from pilotage.model.states import FIRST, LIVE, LIVE_PILOTS, JobState, Kind, is_allowed

from .counters import KEY_COLUMNS, Deltas, LightDeltas
from .creation import Creator
from .decisions import decisions
from .errors import IllegalColumn, IllegalTransition
from .history import Entries, Meaning
from .last_seen import LastSeen
from .numbers import Numbers
from .sets import among
from .tokens import tokens
from .working_set import ID, KEYS, Record, WorkingSet

_STAGING = {"heartbeat", "wake_at", "error", "emergency", "priority", "started", "ended"}
_USED = {"cpu_seconds", "wall_seconds", "max_rss", "max_workdir", "disk_io"}
_OUTCOME = {"error", "exit_code", "started", "ended", *_USED}

WRITABLE: dict[Kind, frozenset[str]] = {
    "task": frozenset({"error", "measured"}),
    "job": frozenset({"queue", "pilot", "wake_at", *_OUTCOME}),
    "transfer": frozenset({"source", "source_path", *_STAGING}),
    "pilot": frozenset({"reference", "heartbeat", "error", "matched", "ended", "containment", "node"}),
}
"""The columns that a decision may set."""

REPEATED_AFTER = 30.0
"""Seconds before a waiting task's stored reason is refreshed."""

_UNMOVED = (decisions.c.moved.is_(False), among(decisions.c.task, "tasks"))
_SAID_LATELY = select(decisions.c.task).where(*_UNMOVED, decisions.c.time > bindparam("time"))
_FORGET_UNMOVED = delete(decisions).where(*_UNMOVED)
_REVOKE = delete(tokens).where(among(tokens.c.pilot, "pilots"))


def check(decision: Decision) -> None:
    """Refuse what could never be right. Raises IllegalTransition, IllegalColumn and ValueError."""
    for change in decision.changes:
        if isinstance(change, Move | Create):
            _check_claims(change.claims)
        if isinstance(change, Move):
            _check_move(change, len(decision.choices))
        if isinstance(change, Move | Touch):
            _check_changes(change)


def meanings(decision: Decision, actor: str) -> Iterator[Meaning]:
    """What the transitions of a decision mean, for the history of their records."""
    for change in decision.changes:
        if isinstance(change, Move):
            yield Meaning.of(change.kind, change.source, change.target, change.cause, actor)
        if isinstance(change, Move | Create):
            made = change.records if isinstance(change, Create) else chain(*change.creates.values())
            for kind in {KINDS[type(record)] for record in made if type(record) in KINDS}:
                yield Meaning.of(kind, None, FIRST[kind], change.cause, actor)


def is_light(decision: Decision) -> bool:
    """Tell whether a decision only touches records and moves jobs on: then it need not be committed alone.

    It makes nothing, claims nothing, leaves what jobs are counted by, and activates none.
    """
    return not decision.choices and all(
        isinstance(change, Touch) or (isinstance(change, Move) and _is_light_move(change))
        for change in decision.changes
    )


def _is_light_move(move: Move) -> bool:
    free = not (move.creates or move.claims or move.changes.keys() & set(KEY_COLUMNS["job"]))
    return move.kind == "job" and free and move.target is not JobState.ACTIVATED


def _check_move(move: Move, choices: int) -> None:
    if not is_allowed(move.kind, move.source, move.target):
        raise IllegalTransition(move.kind, move.source, move.target)
    if move.choice is not None and not 0 <= move.choice < choices:
        raise ValueError(f"a move rests on choice {move.choice}, the decision has {choices}")


def _check_changes(change: Move | Touch) -> None:
    """Refuse columns that may not be set; a touch may not set what its record is counted by."""
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


class Commit:
    """One decision being applied in one transaction.

    ``documents`` are the rows of its choices; ``entries`` writes what goes into the history of records;
    ``light`` says that other commits may run beside this one.
    """

    def __init__(
        self,
        connection: Connection,
        decision: Decision,
        documents: Sequence[Mapping[str, Any]],
        actor: str,
        entries: Entries,
        light: bool,
    ) -> None:
        self._connection = connection
        self._decision = decision
        self._documents = documents
        self._actor = actor
        self._records = WorkingSet(connection)
        self._light = light
        self._deltas = LightDeltas(connection) if light else Deltas(connection)
        self._entries = entries
        self._numbers = Numbers(connection)
        self._creator = Creator(connection, decision.time, self._deltas, entries, self._numbers)
        self._last_seen = LastSeen(connection, decision.time)
        self._handed_back = 0
        self._ineffective: set[int] = set()
        self._effective: set[int] = set()
        self._ended_pilots: list[int] = []

    def run(self) -> Committed:
        """Apply the changes in their order; returns what became of each."""
        self._first_document = self._numbers.take("decision", len(self._documents)).start
        if not self._light:
            self._deltas.fold()
        changes = self._decision.changes
        claims = [claim for change in changes if isinstance(change, Move | Create) for claim in change.claims]
        self._deltas.look_up(claims)
        self._records.load(changes)
        results = [self._apply(change) for change in changes]
        self._records.write()
        self._creator.write()
        self._numbers.write()
        self._save_documents()
        self._revoke_tokens()
        self._last_seen.write()
        self._deltas.write()
        return Committed(
            accepted=tuple(accepted for accepted, _ in results),
            created=tuple(created for _, created in results),
            handed_back=self._handed_back,
        )

    def _apply(self, change: Change) -> Result:
        if isinstance(change, Create):
            return (), self._create(change)
        if isinstance(change, Touch):
            return self._touch(change), ()
        if isinstance(change, Forget):
            self._creator.forget(change.replicas)
            return (), ()
        accepted = self._move(change)
        return accepted, self._creations(change, set(accepted)) if change.creates else ()

    def _move(self, move: Move) -> tuple[int, ...]:
        """Move the records that are as the decision saw them, as many as the claims leave room for."""
        rows = self._records.standing(move.kind, (move.source,), move.ids, move.attempts)
        taken = rows[: self._deltas.room(move.claims, len(rows))] if move.claims else rows
        self._handed_back += len(set(move.ids)) - len(taken)
        self._note_choice(move, bool(taken))
        if not taken:
            return ()
        decision = None if move.choice is None else self._first_document + move.choice
        entry = self._entries.entry(move.kind, move.source, move.target, move.cause, decision)
        self._records.note(move.kind, taken, entry)
        self._count(move, taken)
        values = {**move.changes, "state": str(move.target), "since": self._decision.time}
        self._records.change(move.kind, taken, values)
        if move.next_attempt:
            self._records.next_attempt(move.kind, taken)
        ids = tuple(row[ID] for row in taken)
        if move.kind == "pilot" and move.target not in LIVE_PILOTS:
            self._ended_pilots += ids
        return ids

    def _count(self, move: Move, rows: Sequence[Record]) -> None:
        columns = KEY_COLUMNS[move.kind]
        for before, count in Counter(tuple(row[KEYS:]) for row in rows).items():
            after = [move.changes.get(name, value) for name, value in zip(columns, before, strict=True)]
            self._deltas.moved(move.kind, before, after, move.source, move.target, count)
            record = dict(zip(columns, after, strict=True))
            self._last_seen.moved(move.kind, move.target, record)
            self._last_seen.measured(record, move.changes, count)

    def _touch(self, touch: Touch) -> tuple[int, ...]:
        rows = self._records.standing(touch.kind, LIVE[touch.kind], touch.ids, touch.attempts)
        self._handed_back += len(set(touch.ids)) - len(rows)
        if rows and touch.changes:
            self._records.change(touch.kind, rows, touch.changes)
            columns = KEY_COLUMNS[touch.kind]
            for keys in {tuple(row[KEYS:]) for row in rows}:
                self._last_seen.touched(touch, dict(zip(columns, keys, strict=True)))
        return tuple(row[ID] for row in rows)

    def _creations(self, move: Move, accepted: set[int]) -> tuple[int | None, ...]:
        """Create what rests on records that moved, and nothing else."""
        resting = [(id_, record) for id_ in move.creates for record in move.creates[id_]]
        held = [record for id_, record in resting if id_ in accepted]
        # A new transfer is looked for among the live ones: those that this decision ends must be seen ended.
        self._records.write("transfer")
        ids = iter(self._creator.create(held, move.cause))
        return tuple(next(ids) if id_ in accepted else None for id_, _ in resting)

    def _create(self, create: Create) -> tuple[int | None, ...]:
        fits = self._fitting(create.records, create.claims)
        self._handed_back += fits.count(False)
        held = [record for record, fit in zip(create.records, fits, strict=True) if fit]
        self._records.write("transfer")
        ids = iter(self._creator.create(held, create.cause))
        return tuple(next(ids) if fit else None for fit in fits)

    def _fitting(self, records: Sequence[Creation], claims: Sequence[Claim]) -> list[bool]:
        """Tell which records fit the claims: each bounds the kind that its counter counts."""
        kinds = [KINDS.get(type(record)) for record in records]
        fits = [True] * len(records)
        for kind in {COUNTERS[claim.counter][0] for claim in claims}:
            counted = [index for index, of in enumerate(kinds) if of == kind]
            of_kind = [claim for claim in claims if COUNTERS[claim.counter][0] == kind]
            for index in counted[self._deltas.room(of_kind, len(counted)) :]:
                fits[index] = False
        return fits

    def _note_choice(self, move: Move, effective: bool) -> None:
        if move.choice is not None:
            (self._effective if effective else self._ineffective).add(move.choice)

    def _revoke_tokens(self) -> None:
        """Take away what lets an ended pilot call: its credential ends with it (P9)."""
        if self._ended_pilots:
            self._connection.execute(_REVOKE, {"pilots": self._ended_pilots})

    def _save_documents(self) -> None:
        """Store the choices, but those whose every move was handed back whole.

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
            for index, row in enumerate(self._documents)
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
