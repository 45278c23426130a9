"""Queues whose pilots may take jobs that wait elsewhere, by choice: no row per job (E1).

Rows live while a job of their choice waits, and only for the newest choices. A job of an older one that has
come to the front of its line stays there.
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
from pilotage.store.database.rows import among
from pilotage.store.tables.jobs import is_unstarted, jobs
from pilotage.store.tables.reader import RecordReader

MOST_QUEUES = 64
"""Most candidates of a choice that are kept, besides those where its jobs were placed: the best."""

MOST_CHOICES = 1000
"""Most choices whose candidates are kept."""

candidates = Table(
    "candidates",
    metadata,
    Column("choice", Id, primary_key=True, autoincrement=False),
    Column("queue", String, primary_key=True),
    Column("binding", String, nullable=False),
    Column("placed", Boolean, nullable=False),
)
"""``placed`` is true if some of the choice's jobs went to the queue."""

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
    """Store candidates: choice, queue, binding, and whether jobs were placed there. Delete outdated ones."""
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
    """Return the newest choice that names each queue, if a job of it waits.

    None means that pilots may take no others' jobs.
    """
    if not reader.raw_rows(_ANY):
        return {}
    return dict(tuple(row) for row in reader.raw_rows(_NEWEST_OF_QUEUES))


def of_choices(reader: RecordReader, choices: Iterable[int]) -> tuple[Candidacy, ...]:
    """Return the candidates of choices."""
    wanted = sorted(set(choices))
    rows: Sequence[Any] = reader.raw_rows(_ALL, choices=wanted) if wanted else ()
    return tuple(Candidacy(choice=choice, queue=queue, binding=binding) for choice, queue, binding in rows)
