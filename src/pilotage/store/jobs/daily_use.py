"""What attempts used by day, person, group, share, site, queue, cause of loss, and task: tables, adding up.

The rows of ended attempts are added up once each: the number of the last one that the days have is stored by
the same transaction. So no kill counts one twice or loses it, and commits that end attempts do not wait for
each other at a sum.

One table keeps tasks apart, for a month; the other does not, for longer. A person's tasks are as many as they
submit. So a day keeps some places of each person; the use of further ones is added up.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Column, Connection, Double, Integer, String, Table, bindparam, delete, func, select

from pilotage.model.records.measurements import (
    LOST_CORE_SECONDS,
    READ_BYTES,
    USED_CORE_SECONDS,
    USED_CPU_SECONDS,
    USED_GPU_SECONDS,
    USED_HS23_SECONDS,
    WRITTEN_BYTES,
    Measurement,
)
from pilotage.model.values.durations import DAY
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.dialects import dialect_of, quoted
from pilotage.store.database.measurements import MeasuredKey
from pilotage.store.database.rows import raw_rows
from pilotage.store.history.numbers import numbers
from pilotage.store.jobs import ended_attempts
from pilotage.store.jobs.ended_attempts import ADDED, NewAttempt
from pilotage.store.queues.queues_then import QueueAt
from pilotage.store.servers.metrics import add_measurements

MOST_OF_PERSON = 2000
"""Most rows of a person's day that are kept apart by task, and again by the rest."""

FURTHER = 0
"""The task of further ones."""

MARGIN = 1.1
"""A better request for memory is what an attempt used, times this."""

PARTS = (
    *("attempts", "core_seconds", "hs23_seconds", "gpu_seconds", "cpu_seconds", "lost_seconds"),
    *("asked_memory", "used_memory", "saved_memory", "read_bytes", "written_bytes"),
)
"""Sums of a row. Memory is in MB s."""

PEAK = "peak_memory"
"""The most memory that an attempt used, in MB."""

_PERSON, _PLACE, _CAUSE = ("day", "vo", "owner"), ("group", "share", "site", "queue"), "cause"


def _table(name: str, *task: Column[int]) -> Table:
    return Table(
        name,
        metadata,
        # Days since 1970.
        Column("day", Integer, primary_key=True, autoincrement=False),
        *(Column(key, String, primary_key=True) for key in (*_PERSON[1:], *_PLACE)),
        *task,
        Column(_CAUSE, String, primary_key=True),
        *(Column(part, Double, nullable=False) for part in (*PARTS, PEAK)),
        sqlite_with_rowid=False,
    )


daily_use = _table("daily_use")
daily_task_use = _table("daily_task_use", Column("task", Id, primary_key=True, autoincrement=False))

Key = tuple[int | str, ...]
"""The primary key of a row: a person's day, a place, perhaps a task, and a cause."""


class _Rows:
    """What a batch adds to a table, with a bounded number of rows for each person's day."""

    def __init__(self, table: Table, *nothing: int) -> None:
        self._table, self._nothing = table, nothing
        c = table.c
        of_day = [c.day == bindparam("day"), c.vo == bindparam("vo"), c.owner == bindparam("owner")]
        keys = [column.name for column in table.primary_key]
        self._count = select(func.count()).where(*of_day)
        self._keys = select(*(c[key] for key in keys)).where(*of_day)
        names = (*keys, *PARTS, PEAK)
        changes = [f"{part} = {table.name}.{part} + excluded.{part}" for part in PARTS]
        changes.append(
            f"{PEAK} = CASE WHEN excluded.{PEAK} > {table.name}.{PEAK} THEN excluded.{PEAK}"
            f" ELSE {table.name}.{PEAK} END"
        )
        self._columns = names
        self._conflict = f" ON CONFLICT ({quoted(keys)}) DO UPDATE SET {', '.join(changes)}"
        self.forget = delete(table).where(c.day < bindparam("before"))

    def write(self, connection: Connection, rows: dict[Key, list[float]]) -> None:
        """Add rows to the table."""
        people: defaultdict[Key, dict[Key, list[float]]] = defaultdict(dict)
        for key, values in rows.items():
            people[key[: len(_PERSON)]][key] = values
        bounded: dict[Key, list[float]] = {}
        for person, of_person in people.items():
            for key, values in self._bounded(connection, person, of_person):
                _add(bounded, key, values)
        dialect = dialect_of(connection)
        statement = dialect.insert(self._table, self._columns) + self._conflict
        dialect.run(connection, statement, [(*key, *values) for key, values in sorted(bounded.items())])

    def _bounded(
        self, connection: Connection, person: Key, rows: dict[Key, list[float]]
    ) -> Iterator[tuple[Key, list[float]]]:
        """Yield the rows of a person's day: beyond the bound without task, then without place."""
        values = dict(zip(_PERSON, person, strict=True))
        ((count,),) = raw_rows(connection, self._count, **values)
        if count + len(rows) <= MOST_OF_PERSON:
            yield from rows.items()
            return
        keys = {tuple(row) for row in raw_rows(connection, self._keys, **values)}
        end = len(_PERSON) + len(_PLACE)
        for key, sums in sorted(rows.items()):
            without_task = (*key[:end], *self._nothing, key[-1])
            for times, candidate in enumerate((key, without_task), start=1):
                if candidate in keys or len(keys) < times * MOST_OF_PERSON:
                    keys.add(candidate)
                    yield candidate, sums
                    break
            else:
                yield (*person, *([""] * len(_PLACE)), *self._nothing, key[-1]), sums


_USE, _TASK_USE = _Rows(daily_use), _Rows(daily_task_use, FURTHER)


def _add(rows: dict[Key, list[float]], key: Key, values: Sequence[float]) -> None:
    """Add to a row. The last value is a maximum."""
    if (row := rows.get(key)) is None:
        rows[key] = list(values)
        return
    peak = max(row[-1], values[-1])
    row[:] = [one + other for one, other in zip(row, values, strict=True)]
    row[-1] = peak


def add(connection: Connection, newest: int, queues: QueueAt) -> bool:
    """Add ended attempts up to a number to their days, and to the metrics: one batch at most.

    Return whether there may be more. No other process adds any until the transaction ends.
    """
    after = ended_attempts.added(connection, locking=True)
    rows = ended_attempts.read(connection, after, newest)
    if not rows:
        return False
    read = ended_attempts.bytes_read(connection, rows)
    use: dict[Key, list[float]] = {}
    of_tasks: dict[Key, list[float]] = {}
    for _, attempt in rows:
        site, power = queues(attempt.queue, attempt.time)
        values = _values(attempt, power, read.get(attempt.job, 0))
        person = (int(attempt.time // DAY), attempt.vo, attempt.owner)
        place = (attempt.group, attempt.share, site, attempt.queue)
        _add(use, (*person, *place, attempt.cause), values)
        _add(of_tasks, (*person, *place, attempt.task, attempt.cause), values)
    _USE.write(connection, use)
    _TASK_USE.write(connection, of_tasks)
    add_measurements(connection, _metrics(use), {})
    bulk.add(connection, numbers, ("kind",), "last", [(ADDED, rows[-1].id - after)])
    return len(rows) == ended_attempts.BATCH


def _values(attempt: NewAttempt, power: float, read: int) -> tuple[float, ...]:
    """Return what an attempt adds to ``PARTS``, and ``PEAK``. A later loss adds only that."""
    core_seconds = attempt.seconds * attempt.cores
    lost = core_seconds if attempt.cause else 0.0
    if attempt.is_loss:
        return tuple([lost if part == "lost_seconds" else 0.0 for part in (*PARTS, PEAK)])
    asked, used, seconds = attempt.memory, attempt.max_rss, attempt.seconds
    if not (asked > 0 and used > 0):
        asked = used = 0.0
    return (
        *(1.0, core_seconds, core_seconds * power, seconds * attempt.gpus, attempt.cpu_seconds, lost),
        *(asked * seconds, used * seconds, max(0.0, asked - MARGIN * used) * seconds),
        *(float(read), float(attempt.written), used),
    )


_METRICS: Sequence[tuple[Measurement, int]] = tuple(
    (measure, PARTS.index(part))
    for measure, part in (
        (USED_CORE_SECONDS, "core_seconds"),
        (USED_HS23_SECONDS, "hs23_seconds"),
        (USED_GPU_SECONDS, "gpu_seconds"),
        (USED_CPU_SECONDS, "cpu_seconds"),
        (LOST_CORE_SECONDS, "lost_seconds"),
        (READ_BYTES, "read_bytes"),
        (WRITTEN_BYTES, "written_bytes"),
    )
)


def _metrics(use: dict[Key, list[float]]) -> dict[MeasuredKey, float]:
    """Return what to add to the metrics."""
    sums: defaultdict[MeasuredKey, float] = defaultdict(float)
    names = (*_PERSON, *_PLACE, _CAUSE)
    for key, values in use.items():
        words = dict(zip(names, map(str, key), strict=True))
        for measure, place in _METRICS:
            if values[place]:
                labels = tuple([words[label] for label in measure.labels])
                sums[MeasuredKey(measure.name, labels, "")] += values[place]
    return sums


def forget(connection: Connection, before: float, tasks_before: float) -> None:
    """Delete the days before a time (s since 1970 UTC), and those with tasks before another one."""
    connection.execute(_USE.forget, {"before": int(before // DAY)})
    connection.execute(_TASK_USE.forget, {"before": int(tasks_before // DAY)})


class UseSince(NamedTuple):
    """Core time of some attempts, in s, and the bytes of their inputs and outputs."""

    core_seconds: float
    transferred: float


def use_since(
    connection: Connection, begin: float, vo: str, owner: str | None, group: str | None
) -> UseSince:
    """Return what a VO's attempts used since the day of a time (s since 1970 UTC).

    ``owner`` and ``group`` choose some of them; None: all.
    """
    c = daily_use.c
    sums = (func.coalesce(func.sum(part), 0.0) for part in (c.core_seconds, c.read_bytes + c.written_bytes))
    query = select(*sums).where(c.day >= int(begin // DAY), c.vo == vo)
    query = query if owner is None else query.where(c.owner == owner)
    query = query if group is None else query.where(c.group == group)
    return UseSince(*connection.execute(query).one())
