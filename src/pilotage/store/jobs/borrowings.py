"""Jobs that pilots may take, or took, from other queues, and the world for taking more (E1 to E4).

The table ``candidates`` has the queues that may take jobs of a choice: a row for each queue, not for each
job. Only the newest choices have rows, while one of their jobs waits. A job of an older choice stays in its
queue's line.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    String,
    Table,
    bindparam,
    delete,
    func,
    select,
    text,
    true,
)

from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.records.borrowing import BorrowableLine, Borrowing, Candidacy
from pilotage.model.records.states import AT_A_PILOT, UNSTARTED_JOBS
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, has_state, metadata, partial_index
from pilotage.store.database.dialects import Dialect, Statement
from pilotage.store.database.record_columns import listed
from pilotage.store.database.rows import among
from pilotage.store.jobs.table import JOB_COLUMNS, is_unstarted, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.worlds.parts import Reading, WorldPart, part

MOST_QUEUES = 64
"""Most candidates of a choice that are kept, besides those where its jobs were placed: the best."""

MOST_CHOICES = 1000
"""Most choices with stored candidates."""

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
partial_index("candidates_placed", _c.choice, _c.queue, condition=is_placed)

_CANDIDATE = ("choice", "queue", "binding", "placed")
_WAITS = select(_j.id).where(_j.choice == _c.choice, is_unstarted).correlate(candidates)
_ANY = select(_c.choice).where(is_placed, _WAITS.exists()).order_by(_c.choice.desc()).limit(1)
_NEWEST_OF_QUEUES = select(_c.queue, func.max(_c.choice)).group_by(_c.queue)
_GONE = select(_c.choice).where(is_placed, ~_WAITS.exists()).distinct()
_NEWEST = (
    select(_c.choice).where(is_placed).distinct().order_by(_c.choice.desc()).limit(1).offset(MOST_CHOICES)
)
_FORGET = delete(candidates).where(among(_c.choice, "choices"))
_FORGET_OLDER = delete(candidates).where(_c.choice <= bindparam("choice"))
_OF_CHOICES = (
    select(_c.choice, _c.queue, _c.binding).where(among(_c.choice, "choices")).order_by(_c.choice, _c.queue)
)


def write_candidates(connection: Connection, rows: Sequence[tuple[int, str, str, bool]]) -> None:
    """Store candidates: choice, queue, binding, and whether jobs were placed there. Delete outdated ones."""
    if not rows:
        return
    bulk.insert(connection, candidates, _CANDIDATE, rows)
    gone = connection.execute(_GONE).scalars().all()
    if gone:
        connection.execute(_FORGET, {"choices": list(gone)})
    older = connection.execute(_NEWEST).scalar()
    if older is not None:
        connection.execute(_FORGET_OLDER, {"choice": older})


def newest_choices(reader: RecordReader) -> dict[str, int]:
    """Return the number of the newest choice that names each queue, if one of its jobs waits.

    Pilots of the other queues may take no jobs from elsewhere.
    """
    if not reader.raw_rows(_ANY):
        return {}
    return dict(tuple(row) for row in reader.raw_rows(_NEWEST_OF_QUEUES))


def candidacies_of(reader: RecordReader, choices: Iterable[int]) -> tuple[Candidacy, ...]:
    """Return the candidates of choices."""
    numbers = sorted(set(choices))
    rows: Sequence[Any] = reader.raw_rows(_OF_CHOICES, choices=numbers) if numbers else ()
    return tuple(Candidacy(choice=choice, queue=queue, binding=binding) for choice, queue, binding in rows)


MOST_LINES = 500
"""Most lines (a choice at a queue) to read the last jobs of; the newest choices come first."""

MOST_JOBS = 600
"""Most jobs read at these tails in all, with at least two per line."""

MOST_COUNTED = 20_000
"""Most jobs counted at these tails in all, for the director."""

MOST_READERS = 1000
"""A site's last borrowed remote readers to search for jobs that its pilots still have."""

borrowings = Table(
    "borrowings",
    metadata,
    Column("job", Id, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("site", String, nullable=False),
    Column("time", Double, nullable=False),
    Column("reads", Boolean, nullable=False),
    Column("document", String, nullable=False),
)
COLUMNS = ("job", "attempt", "site", "time", "reads", "document")

_b = borrowings.c

is_reading = _b.reads.is_(true())

partial_index("borrowings_by_site", _b.site, _b.time, condition=is_reading)

_LINES = text("""
SELECT own.choice, own.binding, other.queue FROM candidates AS own
JOIN candidates AS other ON other.choice = own.choice AND other.placed AND other.queue <> own.queue
WHERE own.queue = :queue ORDER BY own.choice DESC, other.queue LIMIT :most""")
_COLUMNS = listed(JOB_COLUMNS, of="job.")
_PLACED = text("SELECT choice, queue FROM candidates WHERE placed ORDER BY choice DESC, queue LIMIT :most")
_LAST = (
    select(_b.job, _b.attempt, _b.time, _b.document)
    .where(_b.site == bindparam("site"), is_reading)
    .order_by(_b.time.desc())
    .limit(MOST_READERS)
    .subquery("last")
)
_READERS = (
    select(_LAST.c.time, _LAST.c.document)
    .join(jobs, (_j.id == _LAST.c.job) & (_j.attempt == _LAST.c.attempt))
    .where(has_state(jobs, *AT_A_PILOT))
)
_OF_JOB = select(_b.time, _b.document).where(_b.job == bindparam("job")).order_by(_b.attempt)

_TAKERS = (
    select(candidates.c.queue)
    .join(jobs, _j.choice == candidates.c.choice)
    .where(_j.id == bindparam("job"), has_state(jobs, *UNSTARTED_JOBS), candidates.c.queue != _j.queue)
    .order_by(candidates.c.queue)
)


def _tail(dialect: Dialect) -> str:
    waits = dialect.any_of("x.state", *(f"'{state}'" for state in UNSTARTED_JOBS))
    return f"""FROM jobs AS x
  WHERE x.choice = line.choice AND x.queue = line.queue AND x.choice IS NOT NULL AND {waits}
  ORDER BY x.priority, x.created DESC, x.id DESC LIMIT :each"""


def _lines(dialect: Dialect) -> str:
    return dialect.rows("lines", choice=int, queue=str)


TAILS = Statement(
    lambda dialect: (
        f"SELECT {_COLUMNS} FROM ({_lines(dialect)}) AS line " + dialect.each("jobs", "job", _tail(dialect))
    )
)
"""The query for the last ``each`` jobs of lines."""


def _counted_tails(dialect: Dialect) -> str:
    tail = _tail(dialect)
    return f"""
WITH line AS ({_lines(dialect)}), counted AS (
  SELECT choice, queue, (SELECT count(*) FROM (SELECT x.id {tail}) AS found) AS jobs,
    (SELECT max(priority) FROM (SELECT x.priority {tail}) AS found) AS priority,
    (SELECT x.id {tail.replace(":each", "1")}) AS job FROM line
)
SELECT counted.choice, counted.queue, jobs.requirements, counted.jobs, counted.priority
FROM counted JOIN jobs ON jobs.id = counted.job ORDER BY counted.choice, counted.queue"""


COUNTED_TAILS = Statement(_counted_tails)
"""The query for the number of jobs at the tails of lines, at most ``each``, and their requirements.

All jobs of a choice have the same requirements: those at a tail are counted in the index, and one is read.
"""


def write(connection: Connection, records: Sequence[Borrowing]) -> None:
    """Store borrowings."""
    bulk.insert(connection, borrowings, COLUMNS, [row(record) for record in records])


def row(record: Borrowing) -> tuple[int, int, str, float, bool, str]:
    """Return the row of a borrowing."""
    document = to_json(record).decode()
    return (record.job, record.attempt, record.site, record.time, bool(record.reads), document)


def _borrowing(time: float, document: str) -> Borrowing:
    """Return the record of a row. ``document`` may be some seconds older than the borrowing."""
    return replace(from_json(Borrowing, document), time=time)


def of_job(connection: Connection, job: int) -> list[Borrowing]:
    """Return how attempts of a job came to run away from their preferred queues, oldest first."""
    return [_borrowing(*row) for row in connection.execute(_OF_JOB, {"job": job})]


def takers(connection: Connection, job: int) -> list[str]:
    """Return the queues that may take a job that waits elsewhere, by name."""
    return list(connection.execute(_TAKERS, {"job": job}).scalars())


def readers(reader: RecordReader, site: str) -> tuple[Borrowing, ...]:
    """Return which of a site's last borrowed jobs read remotely."""
    records = [_borrowing(*row) for row in reader.raw_rows(_READERS, site=site)]
    return tuple(sorted(records, key=lambda borrowing: borrowing.job))


@part("borrowable_lines", "candidacies")
def borrowable_lines(reading: Reading) -> Mapping[str, Any]:
    """Count the jobs that other queues' pilots may take, with these queues, for the director (E4).

    The cost is bounded: only so many lines' tails are read, and none if no choice has candidates.
    """
    reader = reading.reader
    placed = reader.raw_rows(_PLACED, most=MOST_LINES)
    if not placed:
        return {}
    each = max(2, MOST_COUNTED // len(placed))
    named = json.dumps([[choice, queue] for choice, queue in placed])
    lines = tuple(
        BorrowableLine(
            choice=choice, queue=queue, requirements=requirements, jobs=int(jobs_), priority=priority
        )
        for choice, queue, requirements, jobs_, priority in reader.raw_rows(
            COUNTED_TAILS, lines=named, each=each
        )
    )
    return {
        "borrowable_lines": lines,
        "candidacies": candidacies_of(reader, (line.choice for line in lines)),
    }


def for_queue(queue: str) -> WorldPart:
    """Read the jobs that a queue's pilots might take from others, with everything for comparing them.

    Read nothing if no such job waits: candidates remain for some time after their last job. The cost is
    bounded: only so many lines' tails are read.
    """
    names = ("candidacies", "jobs", "tasks", "files", "replicas", "job_counts", "queue_reports")
    related = ("advertisements", "borrowings", "failed_deliveries")
    return WorldPart((*names, *related), lambda reading: _for_queue(reading, queue))


def _for_queue(reading: Reading, queue: str) -> Mapping[str, Any]:
    reader, world = reading.reader, reading.world
    lines = reader.raw_rows(_LINES, queue=queue, most=MOST_LINES)
    if not lines:
        return {}
    each = max(2, MOST_JOBS // len(lines))
    named = json.dumps([[choice, preferred] for choice, _, preferred in lines])
    waiting = reader.with_inputs(reader.raw_rows(TAILS, lines=named, each=each))
    if not waiting:
        return {}
    bindings = {choice: binding for choice, binding, _ in lines}
    inputs, replicas = reading.known_inputs.of(reader, waiting, world.time)
    site = next(
        (declaration.site for declaration in world.federation.queues if declaration.name == queue), ""
    )
    return {
        "candidacies": tuple(
            Candidacy(choice=choice, queue=queue, binding=binding)
            for choice, binding in sorted(bindings.items())
        ),
        "jobs": waiting,
        "tasks": reader.tasks_of(waiting),
        "files": inputs,
        "replicas": replicas,
        "job_counts": reader.job_counts(),
        "queue_reports": reader.queue_reports(),
        "advertisements": reader.bounding_advertisements(world.federation.sites),
        "borrowings": readers(reader, site),
        "failed_deliveries": reader.failed_deliveries(),
    }
