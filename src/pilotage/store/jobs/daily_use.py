"""What attempts used, by day, person, task, queue and cause of loss: table, adding up, and reading.

A person's tasks are as many as they submit. So a day keeps some of each person; further ones are added up.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Column, Connection, Double, Integer, String, Table, bindparam, delete, func, select

from pilotage.model.records.measurements import USE
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Identity
from pilotage.model.values.types import DESCRIBED
from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.dialects import upsert
from pilotage.store.database.measurements import Sums
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.tasks.table import tasks

UseBy = Literal["day", "task", "queue"]

MOST_OF_PERSON = 2000
"""Most rows of a person's day."""

FURTHER = 0
"""The task of all beyond that, at no queue."""

MOST_READ = 500
"""Most rows of an answer: the newest days, or those of most core time."""

_PARTS = ("attempts", "core_seconds", "cpu_seconds", "lost_seconds")
_KEY = ("day", "vo", "owner", "task", "queue", "cause")

daily_use = Table(
    "daily_use",
    metadata,
    # Days since 1970.
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("vo", String, primary_key=True),
    Column("owner", String, primary_key=True),
    Column("task", Id, primary_key=True, autoincrement=False),
    Column("queue", String, primary_key=True),
    Column("cause", String, primary_key=True),
    *(Column(part, Double, nullable=False) for part in _PARTS),
)

_u, _t = daily_use.c, tasks.c
_OWNERS = select(_t.id, _t.vo, _t.owner).where(among(_t.id, "ids"))
_OF_PERSON = (
    select(_u.task, _u.queue)
    .where(_u.day == bindparam("its_day"), _u.vo == bindparam("its_vo"), _u.owner == bindparam("its_owner"))
    .distinct()
)
_OLD = delete(daily_use).where(_u.day < bindparam("before"))
_ADD = upsert(
    daily_use, _KEY, (*_KEY, *_PARTS), {part: f"daily_use.{part} + excluded.{part}" for part in _PARTS}
)
_SUMS = tuple(func.sum(_u[part]).label(part) for part in _PARTS)
_NAMES = select(_t.id, _t.name).where(among(_t.id, "ids"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What attempts used that ended: of a day, a task, a queue, or in all. Times in s."""

    __pydantic_config__ = DESCRIBED

    time: float = 0
    """When the day begins, in s since 1970 UTC; 0: the row is of no day."""
    task: int = 0
    """The task; 0: the row is of no task, or of further ones."""
    name: str = ""
    """The name of the task; empty: it is archived or deleted, or the row is of no task."""
    queue: str = ""
    """The queue; empty: the row is of none."""
    attempts: int
    """Attempts that ended."""
    core_seconds: float
    """The time that they ran, times the cores of each."""
    cpu_seconds: float
    """CPU time of their payloads. As a part of ``core_seconds`` it is their efficiency."""
    lost_seconds: float
    """Core time of those that did not end well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Core time that attempts lost for one cause."""

    __pydantic_config__ = DESCRIBED

    cause: str
    """The kind of the failure, ``cancelled`` or ``other``."""
    what: str
    """What happened to them, in words."""
    lost_seconds: float
    """Core time, in s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseReport:
    """What attempts used, all together and by day, task or queue, and why some of it is lost."""

    __pydantic_config__ = DESCRIBED

    since: float
    """From the beginning of this day on, in s since 1970 UTC."""
    by: UseBy
    """What the rows are of."""
    total: Use
    """All of it."""
    rows: tuple[Use, ...]
    """By day, newest first; by task or queue, those of most core time first."""
    lost: tuple[Loss, ...]
    """What is lost by cause, most first."""
    left_out: int
    """Further rows."""


def add(connection: Connection, sums: Sums) -> None:
    """Add what a process measured to what all have. Use of tasks that are gone is left out."""
    used: defaultdict[tuple[int, int, str, str], dict[str, float]] = defaultdict(dict)
    for key, value in sums.items():
        if key.name == USE.name:
            time, number, at, why, part = key.labels
            used[int(time), int(number), at, why][part] = value
    if not used:
        return
    ids = sorted({task for _, task, _, _ in used})
    owners = {id_: (vo, owner) for id_, vo, owner in raw_rows(connection, _OWNERS, ids=ids)}
    rows: defaultdict[tuple[Any, ...], dict[str, float]] = defaultdict(lambda: dict.fromkeys(_PARTS, 0.0))
    places: dict[tuple[int, str, str], set[tuple[int, str]]] = {}
    for (day, task, queue, cause), parts in sorted(used.items()):
        if task not in owners:
            continue
        person = (day, *owners[task])
        place = _bounded(connection, places, person, (task, queue))
        row = rows[(*person, *place, cause)]
        for part, value in parts.items():
            row[part] += value
    if rows:
        ordered = sorted(rows.items())
        connection.execute(_ADD, [dict(zip(_KEY, key, strict=True)) | parts for key, parts in ordered])


def _bounded(
    connection: Connection,
    places: dict[tuple[int, str, str], set[tuple[int, str]]],
    person: tuple[int, str, str],
    place: tuple[int, str],
) -> tuple[int, str]:
    """Return the task and queue to count in a person's day. Beyond the bound, count them as further ones."""
    if person not in places:
        values = dict(zip(("its_day", "its_vo", "its_owner"), person, strict=True))
        places[person] = {(int(task), queue) for task, queue in raw_rows(connection, _OF_PERSON, **values)}
    if place not in places[person] and len(places[person]) >= MOST_OF_PERSON:
        return FURTHER, ""
    places[person].add(place)
    return place


def forget(connection: Connection, before: float) -> None:
    """Delete the days before a time (s since 1970 UTC)."""
    connection.execute(_OLD, {"before": int(before // DAY)})


def read(
    connection: Connection, owner: Identity | None, after: float, by: UseBy, words: Mapping[str, str]
) -> UseReport:
    """Return what a person's attempts used, or everybody's, from the day of a time on (s since 1970 UTC).

    ``words`` say what happened to lost attempts, by cause.
    """
    first = int(after // DAY)
    conditions = [_u.day >= first]
    if owner is not None:
        conditions += [_u.vo == owner.vo, _u.owner == owner.name]
    group, lost = _u[by], func.sum(_u.lost_seconds)
    order = group.desc() if by == "day" else _SUMS[1].desc()
    grouped = select(group, *_SUMS, func.count().over()).where(*conditions).group_by(group)
    causes = select(_u.cause, lost).where(*conditions, _u.lost_seconds > 0).group_by(_u.cause)
    rows = connection.execute(grouped.order_by(order, group).limit(MOST_READ)).all()
    ids = [row[0] for row in rows] if by == "task" else []
    names: dict[int, str] = dict(raw_rows(connection, _NAMES, ids=ids)) if ids else {}
    return UseReport(
        since=first * DAY,
        by=by,
        total=_use({}, connection.execute(select(*_SUMS).where(*conditions)).one()),
        rows=tuple(_use(_place(by, row[0], names), row[1:-1]) for row in rows),
        lost=tuple(
            Loss(cause=cause, what=words.get(cause, cause), lost_seconds=seconds)
            for cause, seconds in connection.execute(causes.order_by(lost.desc(), _u.cause))
        ),
        left_out=int(rows[0][-1]) - len(rows) if rows else 0,
    )


def _use(place: Mapping[str, Any], sums: Sequence[Any]) -> Use:
    attempts, core, cpu, lost = (part or 0.0 for part in sums)
    return Use(**place, attempts=int(attempts), core_seconds=core, cpu_seconds=cpu, lost_seconds=lost)


def _place(by: UseBy, value: Any, names: Mapping[int, str]) -> Mapping[str, Any]:
    if by == "day":
        return {"time": value * DAY}
    return {"task": value, "name": names.get(value, "")} if by == "task" else {"queue": value}
