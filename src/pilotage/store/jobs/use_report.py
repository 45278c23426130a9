"""Reports on what attempts used: rows by any dimensions, all of it, and what is lost by cause."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from pilotage.model.records.use import CULPRITS, LOSSES, UseBy
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Owners
from pilotage.model.values.types import DESCRIBED
from pilotage.store.database.columns import is_of
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs.daily_use import PARTS, PEAK, daily_task_use, daily_use
from pilotage.store.tasks.table import tasks

MOST_ROWS = 10_000
"""Most rows of an answer: the newest days, or those of most core time."""

USUAL_ROWS = 500

_t = tasks.c
_NAMES = select(_t.id, _t.name).where(among(_t.id, "ids"))
_SUMS = (*PARTS, PEAK)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseSums:
    """What attempts used that ended. Times are in s, memory is in MB s."""

    __pydantic_config__ = DESCRIBED

    attempts: int = 0
    """Attempts that ended."""
    core_seconds: float = 0
    """The time that they ran, times the cores of each."""
    hs23_seconds: float = 0
    """The same, times the HS23 per core that their queue declared then, or 10."""
    gpu_seconds: float = 0
    """The time that they ran, times the GPUs of each."""
    cpu_seconds: float = 0
    """CPU time of their payloads. As a part of ``core_seconds`` it is their efficiency."""
    lost_seconds: float = 0
    """Core time of those that did not end well."""
    asked_memory: float = 0
    """Memory that they asked for, times their time: of those that asked for some, and reported their use."""
    used_memory: float = 0
    """The most memory that each of these used, times its time."""
    saved_memory: float = 0
    """What better requests would save of ``asked_memory``: each for what its attempt used, and 10% more."""
    peak_memory: float = 0
    """The most memory that one of them used, in MB."""
    read_bytes: float = 0
    """Bytes of their inputs."""
    written_bytes: float = 0
    """Bytes of their outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use(UseSums):
    """What attempts used that ended, in all or by dimensions. Those that the row is not of are empty."""

    __pydantic_config__ = DESCRIBED

    time: float = 0
    """When the day begins, in s since 1970 UTC."""
    person: str = ""
    """The owner of the tasks."""
    vo: str = ""
    """The VO."""
    group: str = ""
    """The group of the owner."""
    site: str = ""
    """The site."""
    queue: str = ""
    """The queue."""
    task: int = 0
    """The task; 0: further ones. Tasks are kept for a month."""
    name: str = ""
    """The name of the task; empty: it is archived or deleted."""
    share: str = ""
    """The global share."""
    cause: str = ""
    """Why they are lost: the kind of the failure, ``cancelled`` or ``other``; empty: they ended well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Core time that attempts lost for one cause."""

    __pydantic_config__ = DESCRIBED

    cause: str
    """The kind of the failure, ``cancelled`` or ``other``."""
    what: str
    """What happened to them, in words."""
    culprit: str
    """Whose fault it is, by the kind of the failure; empty: no failure."""
    lost_seconds: float
    """Core time, in s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseReport:
    """What attempts used that ended in some days, all together and by dimensions, and why some is lost."""

    __pydantic_config__ = DESCRIBED

    since: float
    """When the first day begins, in s since 1970 UTC."""
    until: float
    """When the last day ends, in s since 1970 UTC."""
    by: tuple[UseBy, ...]
    """What the rows are of."""
    total: Use
    """All of it."""
    rows: tuple[Use, ...]
    """Newest day first, if by day; then those of most core time first."""
    lost: tuple[Loss, ...]
    """What is lost by cause, most first."""
    left_out: int
    """Further rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseQuery:
    """What to report, and whose. Days begin at these times in s since
    1970 UTC, ``until`` is the last one."""

    owner: Owners
    since: float
    until: float
    by: tuple[UseBy, ...]
    most: int = USUAL_ROWS


def read(connection: Connection, query: UseQuery) -> UseReport:
    """Return a report."""
    # The days without tasks have fewer rows, and are kept for longer.
    c = (daily_task_use if "task" in query.by else daily_use).c
    first, last = int(query.since // DAY), int(query.until // DAY)
    conditions: list[ColumnElement[bool]] = [c.day >= first, c.day <= last]
    conditions += is_of(query.owner, c.owner, c.vo)
    sums = [(func.max if part == PEAK else func.sum)(c[part]).label(part) for part in _SUMS]
    rows = connection.execute(_rows(c, sums, conditions, query)).all()
    causes = connection.execute(select(c.cause, *sums).where(*conditions).group_by(c.cause)).all()
    names: dict[int, str] = {}
    if "task" in query.by and rows:
        names = dict(raw_rows(connection, _NAMES, ids=sorted({row.task for row in rows})))
    return UseReport(
        since=first * DAY,
        until=(last + 1) * DAY,
        by=query.by,
        total=_total(causes),
        rows=tuple(_use(row, query.by, names) for row in rows),
        lost=tuple(_losses(causes)),
        left_out=int(rows[0].every) - len(rows) if rows else 0,
    )


def _rows(
    c: Any, sums: Sequence[ColumnElement[Any]], conditions: Sequence[ColumnElement[bool]], query: UseQuery
) -> Select[Any]:
    columns = [column for by in query.by for column in ((c.vo, c.owner) if by == "person" else (c[by],))]
    keys = list(dict.fromkeys(columns))
    order: list[ColumnElement[Any]] = [c.day.desc()] if "day" in query.by else []
    order += [func.sum(c.core_seconds).desc(), *keys]
    grouped = select(*keys, *sums, func.count().over().label("every")).where(*conditions).group_by(*keys)
    return grouped.order_by(*order).limit(query.most)


def _total(causes: Sequence[Any]) -> Use:
    return Use(
        **_rounded({part: sum([getattr(row, part) for row in causes]) for part in PARTS}),
        peak_memory=max([row.peak_memory for row in causes], default=0.0),
    )


def _losses(causes: Sequence[Any]) -> Iterator[Loss]:
    for row in sorted(causes, key=lambda row: (-row.lost_seconds, row.cause)):
        if row.lost_seconds:
            what, culprit = LOSSES.get(row.cause, row.cause), CULPRITS.get(row.cause, "")
            yield Loss(cause=row.cause, what=what, culprit=culprit, lost_seconds=row.lost_seconds)


def _use(row: Any, by: Sequence[UseBy], names: Mapping[int, str]) -> Use:
    place: dict[str, Any] = {name: getattr(row, name) for name in by if name not in ("day", "person")}
    if "day" in by:
        place["time"] = row.day * DAY
    if "person" in by:
        place |= {"person": row.owner, "vo": row.vo}
    if "task" in by:
        place["name"] = names.get(row.task, "")
    return Use(**place, **_rounded({part: getattr(row, part) for part in _SUMS}))


def _rounded(sums: Mapping[str, float]) -> dict[str, Any]:
    return {**sums, "attempts": int(sums["attempts"])}
