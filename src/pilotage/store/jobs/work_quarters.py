"""Running and finished jobs in each quarter of an hour, of sites, persons and tasks: table and reading."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

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
    or_,
    select,
)

from pilotage.model.records.counters import JOBS_BY_QUEUE
from pilotage.model.records.states import AT_A_PILOT, LIVE_TASKS, JobState
from pilotage.model.values.durations import DAY
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import upsert
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs import job_counts
from pilotage.store.tasks.table import tasks

QUARTER = 900.0
"""Seconds of a row."""

KEPT = DAY + QUARTER
"""Seconds for which rows are kept."""

MOST_TASKS = 1000
"""Most tasks of a sample, the newest."""

WorkOf = Literal["all", "site", "vo", "person", "task"]

_VALUES = ("samples", "running", "done")
_KEY = ("kind", "name", "quarter")

work_quarters = Table(
    "work_quarters",
    metadata,
    Column("kind", String, primary_key=True),
    Column("name", String, primary_key=True),
    # Quarters of an hour since 1970, as whole numbers.
    Column("quarter", Integer, primary_key=True, autoincrement=False),
    Column("samples", Integer, nullable=False),
    Column("running", Double, nullable=False),
    Column("done", Double, nullable=False),
    Index("work_quarters_by_time", "quarter"),
)

_q, _t = work_quarters.c, tasks.c
_ADD = upsert(
    work_quarters,
    _KEY,
    (*_KEY, *_VALUES),
    {name: f"work_quarters.{name} + excluded.{name}" for name in _VALUES},
)
_OLD = delete(work_quarters).where(_q.quarter < bindparam("before"))
_OF = (
    select(_q.quarter, *(_q[name] for name in _VALUES))
    .where(_q.kind == bindparam("its_kind"), _q.name == bindparam("its_name"))
    .where(_q.quarter >= bindparam("after"))
    .order_by(_q.quarter)
)
_COUNTED = (
    select(_t.id, _t.vo, _t.owner)
    .where(or_(_t.state.in_([*map(str, LIVE_TASKS)]), _t.id > bindparam("newest"), among(_t.id, "last")))
    .order_by(_t.id.desc())
    .limit(MOST_TASKS)
)


class WorkNow(NamedTuple):
    """Jobs at pilots now, and jobs that have finished."""

    running: int
    done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCounts:
    """Counts of a moment: of tasks by number, with the keys of their owners, and of queues."""

    tasks: Mapping[int, WorkNow]
    owners: Mapping[int, tuple[str, str]]
    queues: Mapping[str, WorkNow]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSample:
    """Running jobs of a moment, and those that finished since the last one."""

    kind: WorkOf
    name: str = ""
    running: int
    done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkQuarter:
    """A quarter of an hour from ``time`` on (s since 1970): mean of running jobs, and finished ones."""

    time: float
    running: float
    done: float


def counted(connection: Connection, newest: int | None, last: Iterable[int]) -> WorkCounts:
    """Return the counts of live tasks, tasks after the ``newest``, and the ``last`` ones, and of queues."""
    rows = raw_rows(connection, _COUNTED, newest=2**62 if newest is None else newest, last=sorted(last))
    by_task = job_counts.of_tasks(connection, [str(id_) for id_, _, _ in rows])
    by_queue = job_counts.counted(connection, "job", JOBS_BY_QUEUE)
    return WorkCounts(
        tasks={id_: _count(by_task.get(str(id_), {})) for id_, _, _ in rows},
        owners={id_: (vo, owner) for id_, vo, owner in rows},
        queues={queue: _count(jobs) for queue, jobs in by_queue.items()},
    )


def _count(jobs: Mapping[JobState, int]) -> WorkNow:
    return WorkNow(sum(jobs.get(state, 0) for state in AT_A_PILOT), jobs.get(JobState.FINISHED, 0))


def add(connection: Connection, samples: Sequence[WorkSample], time: float) -> None:
    """Add samples to the quarter of a time (s since 1970)."""
    rows = [
        {"kind": sample.kind, "name": sample.name, "quarter": int(time // QUARTER), "samples": 1}
        | {"running": sample.running, "done": sample.done}
        for sample in sorted(samples, key=lambda sample: (sample.kind, sample.name))
    ]
    if rows:
        connection.execute(_ADD, rows)


def forget(connection: Connection, now: float) -> None:
    """Delete what is older than it is kept."""
    connection.execute(_OLD, {"before": int((now - KEPT) // QUARTER)})


def read(connection: Connection, kind: WorkOf, name: str, after: float) -> list[WorkQuarter]:
    """Return the quarters since a time (s since 1970) in which the server took samples."""
    first = int(after // QUARTER)
    every = raw_rows(connection, _OF, its_kind="all", its_name="", after=first)
    own = {row[0]: row for row in raw_rows(connection, _OF, its_kind=kind, its_name=name, after=first)}
    # What did nothing has no row, but counts in the mean.
    return [
        WorkQuarter(
            time=quarter * QUARTER,
            running=own[quarter][2] / samples if quarter in own else 0.0,
            done=own[quarter][3] if quarter in own else 0.0,
        )
        for quarter, samples, _, _ in every
    ]
