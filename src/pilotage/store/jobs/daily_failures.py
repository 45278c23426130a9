"""Failed attempts of each day by person, queue and error: table, adding up, and reading.

A person's payloads can make any number of errors. So a day keeps only some errors of each person, and adds up
the attempts with other errors.
"""

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Integer, String, Table, bindparam, delete, func, select, update

from pilotage.model.records.measurements import FAILED_ATTEMPTS
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Owners
from pilotage.model.values.types import DESCRIBED
from pilotage.store.database import bulk
from pilotage.store.database.columns import is_of, metadata
from pilotage.store.database.measurements import Sums
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.tasks.table import tasks

MOST_OF_PERSON = 200
"""Most rows of a person's day."""

OTHERS = "(other errors)"
"""The error of all beyond that, at no queue."""

MOST_READ = 500
"""Most rows of an answer: the rows with most attempts."""

daily_failures = Table(
    "daily_failures",
    metadata,
    # Days since 1970.
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("vo", String, primary_key=True),
    Column("owner", String, primary_key=True),
    Column("queue", String, primary_key=True),
    Column("error", String, primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("example", String, nullable=False, server_default=""),
)

_KEY = ("day", "vo", "owner", "queue", "error")
_f, _t = daily_failures.c, tasks.c
_OWNERS = select(_t.id, _t.vo, _t.owner).where(among(_t.id, "ids"))
_IS_OWN = (_f.vo == bindparam("its_vo"), _f.owner == bindparam("its_owner"))
_OF_PERSON = select(_f.queue, _f.error).where(_f.day == bindparam("its_day"), *_IS_OWN)
_OLD = delete(daily_failures).where(_f.day < bindparam("before"))
_EXAMPLE = (
    update(daily_failures)
    .where(*(daily_failures.c[name] == bindparam(f"its_{name}") for name in _KEY))
    .values(example=bindparam("line"))
)
_attempts = func.sum(_f.attempts).label("many")
_READ = (
    select(_f.day, _f.queue, _f.error, _attempts, func.max(_f.example))
    .where(_f.day >= bindparam("after"))
    .group_by(_f.day, _f.queue, _f.error)
    .order_by(_attempts.desc(), _f.day.desc(), _f.queue, _f.error)
    .limit(MOST_READ)
)
_DAYS = (
    select(_f.day, func.sum(_f.attempts))
    .where(_f.day >= bindparam("after"))
    .group_by(_f.day)
    .order_by(_f.day)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyFailures:
    """Attempts of jobs that failed in one way at one queue on one day."""

    __pydantic_config__ = DESCRIBED

    time: float
    """When the day begins, in s since 1970 UTC."""
    queue: str
    """The queue; empty: none."""
    error: str
    """The error, with ``#`` for each number in it."""
    attempts: int
    """How many failed, including retried ones."""
    example: str = ""
    """The first of these errors, with its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHistory:
    """Failed attempts by day, queue and error."""

    __pydantic_config__ = DESCRIBED

    failures: tuple[DailyFailures, ...]
    """The rows of most attempts: newest day first, then most attempts."""
    days: tuple[tuple[float, int], ...]
    """When each day with failures begins, and all that failed on it, oldest first."""
    left_out: int
    """Attempts of further rows, which ``days`` count."""


def add(connection: Connection, sums: Sums) -> None:
    """Add a process's failed attempts to the table. Leave out attempts of deleted tasks."""
    attempts = {key.labels: count for key, count in sums.items() if key.name == FAILED_ATTEMPTS.name}
    ids = sorted({int(task) for _, task, *_ in attempts})
    owners = {id_: (vo, owner) for id_, vo, owner in raw_rows(connection, _OWNERS, ids=ids)} if ids else {}
    days: dict[tuple[int, str, str], Counter[tuple[str, str]]] = {}
    lines: dict[tuple[int, str, str, str, str], str] = {}
    for (day, task, queue, error, example), count in attempts.items():
        if (number := int(task)) in owners:
            key = int(day), *owners[number]
            days.setdefault(key, Counter())[queue, error] += int(count)
            lines.setdefault((*key, queue, error), example)
    rows, examples = [], []
    for key, counted in days.items():
        person = dict(zip(("its_day", "its_vo", "its_owner"), key, strict=True))
        places = set(raw_rows(connection, _OF_PERSON, **person))
        for place, count in _bounded(places, counted).items():
            rows.append((*key, *place, count))
            if place not in places and (*key, *place) in lines:
                named = zip(_KEY, (*key, *place), strict=True)
                line = {"line": lines[*key, *place]}
                examples.append({**{f"its_{name}": value for name, value in named}, **line})
    bulk.add(connection, daily_failures, _KEY, "attempts", rows)
    if examples:
        connection.execute(_EXAMPLE, examples)


def _bounded(before: Set[tuple[str, str]], counted: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return the failures of a person's day, most attempts first. Beyond the bound, call errors others."""
    places = set(before)
    bounded: Counter[tuple[str, str]] = Counter()
    for place, count in counted.most_common():
        fits = place in places or len(places) < MOST_OF_PERSON
        bounded[place if fits else ("", OTHERS)] += count
        places |= {place} if fits else set()
    return bounded


def forget(connection: Connection, before: float) -> None:
    """Delete the days before a time (s since 1970 UTC)."""
    connection.execute(_OLD, {"before": int(before // DAY)})


def read(connection: Connection, owner: Owners, after: float) -> FailureHistory:
    """Return the failures of some owners since the day of a time (s since 1970 UTC)."""
    conditions, values = is_of(owner, _f.owner, _f.vo), {"after": int(after // DAY)}
    rows = connection.execute(_READ.where(*conditions), values).all()
    days = connection.execute(_DAYS.where(*conditions), values).all()
    failures = sorted(
        (
            DailyFailures(time=day * DAY, queue=queue, error=error, attempts=int(attempts), example=example)
            for day, queue, error, attempts, example in rows
        ),
        key=lambda failure: (-failure.time, -failure.attempts, failure.queue, failure.error),
    )
    return FailureHistory(
        failures=tuple(failures),
        days=tuple((day * DAY, int(attempts)) for day, attempts in days),
        left_out=sum(int(attempts) for _, attempts in days) - sum(failure.attempts for failure in failures),
    )
