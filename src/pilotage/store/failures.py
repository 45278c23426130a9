"""Failed attempts that the guards go by: table, how they are written, and how they are read (F2, F3)."""

from collections import namedtuple
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import (
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
    or_,
    select,
)

from pilotage.model.counters import JOBS_BY_TASK
from pilotage.model.failures import FailedAttempt, Failure
from pilotage.model.states import AT_A_PILOT, DONE_JOBS, LIVE_TASKS, JobState
from pilotage.model.work import Job

from .columns import Id, has_state, is_state, metadata, text_column
from .counters import counts
from .jobs import jobs
from .reader import RecordReader
from .sets import among
from .tasks import TASK_COLUMNS, tasks
from .upserts import replaced, upsert

failures = Table(
    "failures",
    metadata,
    Column("job", Id, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("task", Id, nullable=False),
    text_column("owner"),
    text_column("vo"),
    Column("queue", String, nullable=False),
    Column("node", String, nullable=False),
    Column("pilot", Id, nullable=False),
    Column("pilots", Integer, nullable=False),
    Column("time", Double, nullable=False),
    Column("lasted", Double, nullable=False),
    Column("exit_code", Integer),
    text_column("ending"),
    Column("against", String, nullable=False),
    Index("failures_by_place", "queue", "vo", "owner", "node", "time"),
    Index("failures_by_task", "task"),
)

KEPT = 7 * 86400.0
"""Seconds for which a failure is kept: many times the longest rest."""

DOUBTED = 86400.0
"""Seconds after its first failure for which a task of which nothing ends well is in doubt: no longer."""

MOST_OF_A_PLACE = 20
"""Failures of an owner that are kept for a node: enough for the longest rest, however many jobs failed."""

MOST_LOOKED_AT = 500
"""Jobs of a task that are asked where they are."""

PLACED = (JobState.ASSIGNED, JobState.ACTIVATED, *AT_A_PILOT)
"""States of jobs that are at a queue and may yet tell how they fare there."""

_f, _c, _j, _t = failures.c, counts.c, jobs.c, tasks.c

_COLUMNS = [column.name for column in _f]
_Row: Any = namedtuple("_Row", _COLUMNS)  # type: ignore[misc]
# An attempt fails once; only what it speaks against is judged again later.
_SAVE = upsert(failures, ["job", "attempt"], _COLUMNS, replaced(["against"]))
_OLD = delete(failures).where(_f.time < bindparam("before"))
_other = failures.alias()
# Null where a place has fewer: no time is below null, and nothing is deleted.
_NEWEST = (
    select(_other.c.time)
    .where(*(_other.c[name] == bindparam(f"its_{name}") for name in ("queue", "vo", "owner", "node")))
    .order_by(_other.c.time.desc())
    .limit(1)
    .offset(MOST_OF_A_PLACE - 1)
    .scalar_subquery()
)
_TOO_MANY = delete(failures).where(
    *(_f[name] == bindparam(f"its_{name}") for name in ("queue", "vo", "owner", "node")), _f.time < _NEWEST
)

_ALL = select(failures).where(_f.time > bindparam("after")).order_by(_f.time, _f.job)
_SPEAKING = _ALL.where(_f.against != "task")
_AT_QUEUES = _SPEAKING.where(among(_f.queue, "queues"))
_OF_JOBS = _SPEAKING.where(among(_f.job, "jobs"))
_ENDED_WELL = (
    select(_c.first)
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_([str(s) for s in DONE_JOBS]), among(_c.first, "tasks"))
    .group_by(_c.first)
    .having(func.sum(_c.count) > 0)
)
_RUNNING = (
    select(_j.task, _j.queue, func.min(_j.started))
    .where(among(_j.task, "tasks"), is_state(jobs, JobState.RUNNING), _j.started.is_not(None))
    .group_by(_j.task, _j.queue)
)
_ways = (
    select(
        *(_f.task, _f.exit_code, _f.ending, func.min(_f.vo).label("vo"), func.min(_f.owner).label("owner")),
        *(func.min(_f.queue).label("first"), func.max(_f.queue).label("last")),
    )
    .where(among(_f.task, "tasks"))
    .group_by(_f.task, _f.exit_code, _f.ending)
    # Of two queues the first and the last by name are all: black holes are few, and a mistake is everywhere.
    .having(
        func.count(_f.queue.distinct()) <= 2,
        func.max(_f.against) != "task",
        func.min(_f.time) > bindparam("doubted_after"),
    )
    .subquery("ways")
)
_spreads = (
    select(
        *(_f.task, func.count(_f.queue.distinct()).label("queues")),
        *(func.min(_f.queue).label("first"), func.max(_f.queue).label("last")),
    )
    # Whatever the way: the last lines of a mistake may differ by more than numbers, as names of files do.
    .where(among(_f.task, "tasks"), _f.exit_code.is_not(None))
    .group_by(_f.task)
    .subquery("spreads")
)
_looked_at = (
    select(_j.queue)
    .where(_j.task == _spreads.c.task, has_state(jobs, *PLACED))
    .limit(MOST_LOOKED_AT)
    .correlate(_spreads)
    .subquery("looked_at")
)
_is_elsewhere = (
    select(_looked_at.c.queue)
    .where(_spreads.c.queues <= 2, _looked_at.c.queue.not_in([_spreads.c.first, _spreads.c.last]))
    .correlate(_spreads)
    .exists()
)
_is_shared = (
    select(_other.c.job)
    .where(
        _other.c.queue.in_([_ways.c.first, _ways.c.last]),
        _other.c.exit_code == _ways.c.exit_code,
        _other.c.ending == _ways.c.ending,
        or_(_other.c.vo != _ways.c.vo, _other.c.owner != _ways.c.owner),
        _other.c.against != "task",
    )
    .correlate(_ways)
    .exists()
)
_IN_DOUBT = (
    select(_ways.c.task, _ways.c.exit_code, _ways.c.ending)
    .join(_spreads, _spreads.c.task == _ways.c.task)
    .where(or_(_is_elsewhere, _is_shared))
)
"""Ways to fail of a task that fails at one queue, or two, while jobs of it are at another, and those that it
shows at one or two where other owners' jobs fail alike.

One that it shows at a node where jobs of its owner end well is its own."""
_ALIKE = (
    select(_f.task)
    .group_by(_f.task)
    .having(
        func.count() >= bindparam("least"),
        # count() of a column leaves nulls out: every attempt must have told an exit code.
        func.count(_f.exit_code) == func.count(),
        func.min(_f.exit_code) == func.max(_f.exit_code),
        func.min(_f.ending) == func.max(_f.ending),
    )
)
_LIVE = select(*TASK_COLUMNS).where(among(_t.id, "ids"), has_state(tasks, *LIVE_TASKS)).order_by(_t.id)
_OF_JOB = (
    select(*(_f[item.name] for item in fields(FailedAttempt)))
    .where(_f.job == bindparam("its_job"))
    .order_by(_f.attempt)
)
_OF_TASKS = select(failures).where(among(_f.task, "tasks")).order_by(_f.time, _f.job)


def write(connection: Connection, found: Sequence[Failure]) -> None:
    """Write failures, or what they speak against from now on; drop those that are too old or too many."""
    rows = [{name: getattr(failure, name) for name in _COLUMNS} for failure in found]
    connection.execute(_SAVE, rows)
    connection.execute(_OLD, {"before": max(failure.time for failure in found) - KEPT})
    places = {(failure.queue, failure.vo, failure.owner, failure.node) for failure in found}
    for queue, vo, owner, node in sorted(places):
        place = {"its_queue": queue, "its_vo": vo, "its_owner": owner, "its_node": node}
        connection.execute(_TOO_MANY, place)


def of_queues(reader: RecordReader, time: float, queues: Sequence[str]) -> tuple[Failure, ...]:
    """The failures that speak against queues, or nodes of them."""
    return _proven(reader, time, reader.raw_rows(_AT_QUEUES, after=time - KEPT, queues=queues))


def of_retried(reader: RecordReader, time: float, found: Iterable[Job]) -> tuple[Failure, ...]:
    """The failures of earlier attempts of jobs that speak against places: such jobs may have more (F2)."""
    retried = [job.id for job in found if job.attempt > 1]
    return (
        _proven(reader, time, reader.raw_rows(_OF_JOBS, after=time - KEPT, jobs=retried)) if retried else ()
    )


def of_job(connection: Connection, job: int) -> tuple[FailedAttempt, ...]:
    """Read which attempts of a job failed at pilots, as far as that is kept, oldest first."""
    found = connection.execute(_OF_JOB, {"its_job": job})
    return tuple(FailedAttempt(**row) for row in found.mappings())


def of_places(reader: RecordReader, time: float) -> tuple[Failure, ...]:
    """The failures that speak against queues and nodes, oldest first."""
    return _proven(reader, time, reader.raw_rows(_SPEAKING, after=time - KEPT))


def everything(reader: RecordReader, time: float) -> tuple[Failure, ...]:
    """All failures that are kept."""
    return _proven(reader, time, reader.raw_rows(_ALL, after=time - KEPT))


def alike(reader: RecordReader, time: float, least: int) -> dict[str, Any]:
    """Live tasks of which nothing ended well, and ``least`` attempts or more failed, all in the same way."""
    suspects = [task for (task,) in reader.raw_rows(_ALIKE, least=least)]
    if suspects:
        suspects = sorted({*suspects} - _ended_well(reader, suspects))
    found = reader.tasks_from(_LIVE, ids=suspects) if suspects else ()
    ids = [task.id for task in found]
    told = _proven(reader, time, reader.raw_rows(_OF_TASKS, tasks=ids)) if ids else ()
    return {"tasks": found, "failures": told}


def _proven(reader: RecordReader, time: float, found: Sequence[Any]) -> tuple[Failure, ...]:
    """Failures, each with whether its task is not to blame."""
    if not found:
        return ()
    rows: list[Any] = [_Row._make(row) for row in found]
    suspects = sorted({row.task for row in rows})
    well = _ended_well(reader, suspects)
    running = {
        (task, queue): time - started
        for task, queue, started in reader.raw_rows(
            _RUNNING, tasks=[one for one in suspects if one not in well]
        )
    }
    cleared = [row.exit_code is None or row.task in well or _runs_longer(row, running) for row in rows]
    unclear = sorted({row.task for row, clear in zip(rows, cleared, strict=True) if not clear})
    ways = reader.raw_rows(_IN_DOUBT, tasks=unclear, doubted_after=time - DOUBTED) if unclear else ()
    in_doubt = {tuple(way) for way in ways}
    return tuple(
        Failure(**row._asdict(), proven=clear or doubted, doubted=doubted)
        for row, clear in zip(rows, cleared, strict=True)
        for doubted in [not clear and (row.task, row.exit_code, row.ending) in in_doubt]
    )


def _ended_well(reader: RecordReader, suspects: Sequence[int]) -> set[int]:
    found = reader.raw_rows(_ENDED_WELL, tasks=[str(task) for task in suspects])
    return {int(task) for (task,) in found}


MARGIN = 30.0
"""Seconds that a job must run beyond twice the time that another lasted: reports take a while."""


def _runs_longer(row: Any, running: dict[tuple[int, str], float]) -> bool:
    """Tell whether a job of the same task runs longer at another queue than this one did here."""
    return any(
        task == row.task and queue != row.queue and ran > 2 * row.lasted + MARGIN
        for (task, queue), ran in running.items()
    )
