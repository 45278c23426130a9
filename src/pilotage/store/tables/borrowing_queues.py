"""Queues whose pilots may take jobs that wait elsewhere, by choice: no row for any job (E1).

Rows live as long as a job waits that rests on their choice, and the newest choices alone: a job of an older
one, which has come to the front of its line meanwhile, stays where it is.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Index,
    String,
    Table,
    bindparam,
    delete,
    func,
    select,
    true,
)

from pilotage.model.records.borrowing import Candidacy
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, metadata, partial_index
from pilotage.store.database.sets import among
from pilotage.store.tables.jobs import is_unstarted, jobs

from .reader import RecordReader

MOST_QUEUES = 64
"""Candidates of a choice that are kept beside those where its jobs were placed: the best."""

MOST_CHOICES = 1000
"""Choices whose candidates are kept at most."""

candidates = Table(
    "candidates",
    metadata,
    Column("choice", Id, primary_key=True, autoincrement=False),
    Column("queue", String, primary_key=True),
    Column("binding", String, nullable=False),
    Column("placed", Boolean, nullable=False),
)
"""``placed``: some of the choice's jobs went to the queue."""

_c, _j = candidates.c, jobs.c

is_placed = _c.placed.is_(true())

Index("candidates_by_queue", _c.queue, _c.choice)
partial_index("candidates_placed", _c.choice, _c.queue, where=is_placed)

_COLUMNS = ("choice", "queue", "binding", "placed")
_WAITS = select(_j.id).where(_j.choice == _c.choice, is_unstarted).correlate(candidates)
_ANY = select(_c.choice).where(is_placed, _WAITS.exists()).order_by(_c.choice.desc()).limit(1)
_NEWEST_OF_QUEUES = select(_c.queue, func.max(_c.choice)).group_by(_c.queue)
_GONE = select(_c.choice).where(is_placed, ~_WAITS.exists()).distinct()
_NEWEST = (
    select(_c.choice).where(is_placed).distinct().order_by(_c.choice.desc()).limit(1).offset(MOST_CHOICES)
)
_FORGET = delete(candidates).where(among(_c.choice, "choices"))
_FORGET_OLDER = delete(candidates).where(_c.choice <= bindparam("choice"))
_ALL = (
    select(_c.choice, _c.queue, _c.binding).where(among(_c.choice, "choices")).order_by(_c.choice, _c.queue)
)


def write(connection: Connection, rows: Sequence[tuple[int, str, str, bool]]) -> None:
    """Keep candidates: choice, queue, binding, and whether it was placed there; what is past goes."""
    if not rows:
        return
    bulk.insert(connection, candidates, _COLUMNS, rows)
    gone = connection.execute(_GONE).scalars().all()
    if gone:
        connection.execute(_FORGET, {"choices": list(gone)})
    older = connection.execute(_NEWEST).scalar()
    if older is not None:
        connection.execute(_FORGET_OLDER, {"choice": older})


def newest(reader: RecordReader) -> dict[str, int]:
    """The newest choice that names each queue, if a job waits by any: pilots of others may take none."""
    if not reader.raw_rows(_ANY):
        return {}
    return dict(tuple(row) for row in reader.raw_rows(_NEWEST_OF_QUEUES))


def of_choices(reader: RecordReader, choices: Iterable[int]) -> tuple[Candidacy, ...]:
    """Read the candidates of choices."""
    wanted = sorted(set(choices))
    rows: Sequence[Any] = reader.raw_rows(_ALL, choices=wanted) if wanted else ()
    return tuple(Candidacy(choice=choice, queue=queue, binding=binding) for choice, queue, binding in rows)
