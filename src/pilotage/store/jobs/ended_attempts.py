"""Attempts that ended: a row for each, written by the commit that ends it, and kept for a month.

The row has what later commits change or the archive deletes. The rest belongs to the job, its pilot and its
queue: readers look it up (``AttemptExport``). Numbers have the order of commits
(``history/settled_numbers.py``), so a reader that remembers the last number misses none.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    Integer,
    String,
    Table,
    bindparam,
    delete,
    func,
    select,
)

from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.dialects import POSTGRESQL, AnyConnection, dialect_of
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files.table import files
from pilotage.store.history.numbers import numbers
from pilotage.store.history.settled_numbers import TURN
from pilotage.store.jobs.table import job_inputs

ended_attempts = Table(
    "ended_attempts",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("time", Double, nullable=False),
    Column("job", Id, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("task", Id, nullable=False),
    *(Column(name, String, nullable=False) for name in ("vo", "owner", "group", "share", "queue", "cause")),
    Column("is_loss", Boolean, nullable=False),
    Column("pilot", Id, nullable=False),
    Column("started", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("cpu_seconds", Double, nullable=False),
    Column("cores", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("memory", Double, nullable=False),
    Column("max_rss", Double, nullable=False),
    Column("written", Id, nullable=False),
)

SEQUENCE = "ended_attempts_id_seq"
"""PostgreSQL's sequence of their numbers."""

ADDED = "added attempts"
"""The name of the stored number of the last attempt that the days have."""

BATCH = 5000
"""Most attempts of one transaction."""


class NewAttempt(NamedTuple):
    """An attempt that ended, or with ``is_loss`` that is lost later: its outputs were not stored.

    ``time`` and ``started`` are in s since 1970 UTC. Memory is in MB, 0 if unknown. ``written`` counts the
    bytes of its outputs. The ``cause`` is empty if it ended well.
    """

    time: float
    job: int
    attempt: int
    task: int
    vo: str
    owner: str
    group: str
    share: str
    queue: str
    cause: str
    is_loss: bool
    pilot: int
    started: float
    seconds: float
    cpu_seconds: float
    cores: int
    gpus: int
    memory: float
    max_rss: float
    written: int


_a = ended_attempts.c
_COLUMNS = NewAttempt._fields
_NEXT = (
    select(_a.id, *(_a[name] for name in _COLUMNS))
    .where(_a.id > bindparam("after"), _a.id <= bindparam("last"))
    .order_by(_a.id)
    .limit(bindparam("most"))
)
_READ = (
    select(job_inputs.c.job, func.sum(files.c.size))
    .join(files, files.c.name == job_inputs.c.file)
    .where(among(job_inputs.c.job, "ids"))
    .group_by(job_inputs.c.job)
)
_FIRST = select(_a.id, _a.time).where(_a.id > 0).order_by(_a.id).limit(bindparam("most"))
_DELETE = delete(ended_attempts).where(_a.id <= bindparam("up_to"))
_ADDED = select(numbers.c.last).where(numbers.c.kind == ADDED)


class NumberedAttempt(NamedTuple):
    """A row with its number."""

    id: int
    attempt: NewAttempt


def write(connection: AnyConnection, rows: Sequence[NewAttempt]) -> None:
    """Write the attempts that a commit ended."""
    dialect = dialect_of(connection)
    statement = dialect.insert(ended_attempts, _COLUMNS)
    if dialect is POSTGRESQL:
        # The condition takes the lock before a row gets its number.
        statement = f"{TURN} {statement} WHERE (SELECT true FROM turn)"
    dialect.run(connection, statement, rows)


def read(connection: Connection, after: int, last: int, most: int = BATCH) -> list[NumberedAttempt]:
    """Return the first rows after a number, up to ``last``."""
    rows = raw_rows(connection, _NEXT, after=after, last=last, most=most)
    return [NumberedAttempt(id_, NewAttempt(*values)) for id_, *values in rows]


def bytes_read(connection: Connection, rows: Sequence[NumberedAttempt]) -> dict[int, int]:
    """Return the bytes of jobs' inputs, by job. Jobs whose records are deleted have none."""
    ids = sorted({row.attempt.job for row in rows})
    found = raw_rows(connection, _READ, ids=ids) if ids else ()
    return {job: int(size or 0) for job, size in found}


def added(connection: Connection, locking: bool = False) -> int:
    """Return the number of the last attempt that the days have. With ``locking``, let no other add."""
    if not locking:
        return int(connection.execute(_ADDED).scalar() or 0)
    bulk.insert(connection, numbers, ("kind", "last"), [(ADDED, 0)], once=True)
    return int(connection.execute(_ADDED.with_for_update()).scalar_one())


def forget(connection: Connection, before: float) -> bool:
    """Delete attempts before a time (s since 1970 UTC), one batch at most. Return whether there may be more.

    The newest one stays, because SQLite numbers the next one after it; so do those that no day has.
    """
    rows = raw_rows(connection, _FIRST, most=BATCH + 1)
    last = added(connection)
    # Stop at the first one that stays: times are not quite in order, because servers' clocks differ.
    kept = next((at for at, (id_, time) in enumerate(rows) if time >= before or id_ > last), len(rows) - 1)
    if kept > 0:
        connection.execute(_DELETE, {"up_to": rows[kept - 1][0]})
    return kept >= BATCH
