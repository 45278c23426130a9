"""Stored choices: tables, writing, deleting, and views."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import islice
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    LargeBinary,
    String,
    Table,
    bindparam,
    delete,
    exists,
    insert,
    select,
)

from pilotage.model.documents.decision import DatedChoice, Decision
from pilotage.model.documents.reasons import Facts, PackedChoice, packed, unpacked
from pilotage.store.database.columns import Id, id_column, metadata, partial_index, text_column
from pilotage.store.database.rows import among
from pilotage.store.history.reasons import StoredFacts, UnreadableReasons, choice_of, documents_of, facts_of
from pilotage.store.jobs import borrowings

log = logging.getLogger(__name__)

decisions = Table(
    "decisions",
    metadata,
    id_column(),
    Column("task", Id, nullable=False),
    Column("step", String, nullable=False),
    Column("time", Double, nullable=False),
    text_column("actor"),
    Column("moved", Boolean, nullable=False),
    Column("facts", Id, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Index("decisions_by_task", "task", "id"),
)

decision_facts = Table(
    "decision_facts",
    metadata,
    id_column(),
    Column("last", Id, nullable=False),
    Column("document", LargeBinary, nullable=False),
)
"""Facts that the choices of one commit share, under the first choice's number. ``last`` is the last
choice's."""

_d, _f = decisions.c, decision_facts.c

partial_index("decisions_unmoved", _d.task, condition=_d.moved.is_(False))

REPEATED_AFTER = 30.0
"""Seconds before a waiting task's stored reason is refreshed."""

_UNMOVED = (_d.moved.is_(False), among(_d.task, "tasks"))
_SAID_LATELY = select(_d.task).where(*_UNMOVED, _d.time > bindparam("time"))
_FORGET_UNMOVED = delete(decisions).where(*_UNMOVED).returning(_d.facts)
_FORGET = delete(decisions).where(among(_d.id, "ids")).returning(_d.facts)
_FORGET_FACTS = delete(decision_facts).where(
    # Limit the rows to first..last by the primary key: the column facts has no index.
    among(_f.id, "facts"),
    ~exists().where(_d.id.between(_f.id, _f.last), _d.facts == _f.id),
)
_FACTS = select(_f.id, _f.document).where(among(_f.id, "facts"))


@dataclass(frozen=True, slots=True)
class Documents:
    """The rows of a decision's choices, without the commit's additions, and the document of their facts.

    ``choices`` is their number. There are no rows if reasons are not kept. ``candidates`` has a choice's
    queues, each with whether jobs were placed there, by the choice's index. Only the newest choices with jobs
    that any candidate's pilots may take have them (E1).
    """

    choices: int = 0
    facts: bytes = b""
    rows: Sequence[dict[str, Any]] = ()
    candidates: Mapping[int, Sequence[tuple[str, bool]]] = field(default_factory=dict)


def documents(decision: Decision) -> Documents:
    """Pack the reasons of a decision, before its transaction begins."""
    if not decision.choices:
        return Documents()
    facts, choices = packed(decision.choices)
    shared, choice_documents = documents_of(facts, choices)
    rows = [
        {"task": choice.task, "step": decision.step, "time": decision.time, "document": document}
        for choice, document in zip(choices, choice_documents, strict=True)
    ]
    takers = _takers(decision)
    candidates = {index: _candidates(facts, choices[index], takers[index]) for index in takers}
    return Documents(len(choices), shared, rows, candidates)


def candidates_alone(decision: Decision) -> Documents:
    """Count the choices of a decision, and pack those with candidates. Store no reasons."""
    number = len(decision.choices)
    takers = _takers(decision)
    if not takers:
        return Documents(number)
    facts, choices = packed(decision.choices, list(takers))
    candidates = {
        index: _candidates(facts, choice, takers[index])
        for index, choice in zip(takers, choices, strict=True)
    }
    return Documents(number, candidates=candidates)


def _takers(decision: Decision) -> dict[int, Sequence[str] | None]:
    """Return the queues that may take jobs of the newest choices, if these let other queues do so."""
    takers = {
        move.choice: move.takers
        for move in decision.moves
        if move.choice is not None and move.binding != "early"
    }
    return {index: takers[index] for index in sorted(takers)[-borrowings.MOST_CHOICES :]}


def _candidates(facts: Facts, choice: PackedChoice, takers: Sequence[str] | None) -> list[tuple[str, bool]]:
    """Return the best queues that passed and may take the jobs, and those where jobs were placed."""
    allowed = None if takers is None else frozenset(takers)
    names = map(facts.queues.__getitem__, choice.candidates.queues)
    eligible = (name for name in names if name not in choice.placed and (allowed is None or name in allowed))
    best = islice(eligible, borrowings.MOST_QUEUES)
    return [*((name, True) for name in choice.placed), *((name, False) for name in best)]


class CommitChoices:
    """The choices of one commit, numbered from ``first``, and which of them moved a record."""

    def __init__(self, connection: Connection, documents: Documents, first: int) -> None:
        self._connection = connection
        self._documents = documents
        self._ineffective: set[int] = set()
        self._effective: set[int] = set()
        self._bindings: dict[int, str] = {}
        self._first = first

    def note(self, choice: int, effective: bool, binding: str = "early") -> int:
        """Record whether a move of a choice moved any record, and its binding. Return the choice's number."""
        (self._effective if effective else self._ineffective).add(choice)
        if effective and binding != "early":
            self._bindings[choice] = binding
        return self._first + choice

    def is_open(self, choice: int) -> bool:
        """Return whether a choice has candidates and its binding lets them take its jobs (E1)."""
        return choice in self._documents.candidates

    def write(self, time: float, actor: str) -> None:
        """Store the choices, except those with moves that all failed.

        If a choice moves nothing because jobs only wait, a task keeps the newest one. Write it again when it
        is older than ``REPEATED_AFTER``.
        """
        dropped = self._ineffective - self._effective
        rows = [
            {
                "id": self._first + index,
                "actor": actor,
                "moved": index in self._effective,
                "facts": self._first,
                **row,
            }
            for index, row in enumerate(self._documents.rows)
            if index not in dropped
        ]
        if unmoved := sorted({row["task"] for row in rows if not row["moved"]}):
            before = {"tasks": unmoved, "time": time - REPEATED_AFTER}
            recent = set(self._connection.execute(_SAID_LATELY, before).scalars())
            rows = [row for row in rows if row["moved"] or row["task"] not in recent]
            forgotten = self._connection.execute(_FORGET_UNMOVED, {"tasks": sorted({*unmoved} - recent)})
            _forget_facts(self._connection, forgotten.scalars())
        if rows:
            facts = {"id": self._first, "last": rows[-1]["id"], "document": self._documents.facts}
            self._connection.execute(insert(decision_facts), facts)
            self._connection.execute(insert(decisions), rows)
        borrowings.write_candidates(
            self._connection,
            [
                (self._first + choice, queue, binding, placed)
                for choice, binding in self._bindings.items()
                for queue, placed in self._documents.candidates.get(choice, ())
            ],
        )


def forget(connection: Connection, ids: Iterable[int]) -> None:
    """Delete some choices, and the facts that only they used."""
    _forget_facts(connection, connection.execute(_FORGET, {"ids": list(ids)}).scalars())


def _forget_facts(connection: Connection, facts: Iterable[int]) -> None:
    numbers = sorted(set(facts))
    if numbers:
        connection.execute(_FORGET_FACTS, {"facts": numbers})


def dated(connection: Connection, rows: Sequence[Any]) -> list[DatedChoice]:
    """Return the choices of rows with time, facts and document. Raises ``UnreadableReasons``."""
    return list(map(_reader(connection, rows), rows))


def readable(connection: Connection, rows: Sequence[Any]) -> list[DatedChoice]:
    """Return the choices of rows that this program can read, and log why it leaves the others out."""
    read, choices = _reader(connection, rows), []
    for row in rows:
        try:
            choices.append(read(row))
        except UnreadableReasons as error:
            log.warning("a choice of pass %d cannot be shown: %s", row.facts, error)
    return choices


def _reader(connection: Connection, rows: Sequence[Any]) -> Callable[[Any], DatedChoice]:
    stored = connection.execute(_FACTS, {"facts": sorted({row.facts for row in rows})})
    documents: dict[int, bytes] = {row.id: row.document for row in stored}

    @cache
    def facts_at(number: int) -> StoredFacts:
        if number not in documents:
            raise UnreadableReasons(f"the store has no facts {number}")
        return facts_of(documents[number])

    def read(row: Any) -> DatedChoice:
        facts = facts_at(row.facts)
        choice = unpacked(choice_of(row.document, facts), facts.facts)
        return DatedChoice(
            time=row.time, **{part.name: getattr(choice, part.name) for part in fields(choice)}
        )

    return read
