"""Jobs and their inputs: tables, indexes for passes' queries, rows, and what people see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    and_,
    literal_column,
    select,
)

from pilotage.model.records.failures import FailedAttempt
from pilotage.model.records.states import AT_A_PILOT, LIVE_JOBS, UNSTARTED_JOBS, JobState, State
from pilotage.model.records.work import Job, JobKind, TaskSpec
from pilotage.model.rules.job_payload import parameters_of
from pilotage.model.values.priorities import HIGH_PRIORITY
from pilotage.store.database.columns import (
    Id,
    id_column,
    is_state,
    life_columns,
    metadata,
    partial_index,
    text_column,
)

from .history import EventView

jobs = Table(
    "jobs",
    metadata,
    id_column(),
    Column("task", Id, ForeignKey("tasks.id"), nullable=False),
    Column("kind", String, nullable=False),
    text_column("share"),
    Column("priority", Integer, nullable=False),
    text_column("requirements"),
    *life_columns(),
    text_column("queue"),
    Column("pilot", Id),
    Column("events", Integer, nullable=False),
    Column("input_count", Integer, nullable=False),
    Column("wake_at", Double),
    Column("exit_code", Integer),
    Column("cpu_seconds", Double),
    Column("wall_seconds", Double),
    Column("max_rss", Double),
    Column("max_workdir", Double),
    Column("started", Double),
    Column("ended", Double),
    Column("disk_io", Double),
    text_column("history"),
    Column("choice", Id),
    text_column("changes"),
    Column("job_index", Integer),
    Column("attempts_before", Integer, server_default="0", nullable=False),
    text_column("departures"),
)

job_inputs = Table(
    "job_inputs",
    metadata,
    Column("job", Id, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("file", String, nullable=False),
    Index("job_inputs_by_file", "file", "job"),
    sqlite_with_rowid=False,
)

_j = jobs.c

is_urgent = _j.priority >= literal_column(str(HIGH_PRIORITY))

is_live = is_state(jobs, *LIVE_JOBS)
"""Ended jobs only pile up, so no index of states contains them."""


def is_in(state: State) -> ColumnElement[bool]:
    """Return the condition that a job is in a live state, for the index by state and time."""
    return and_(is_live, is_state(jobs, state))


# SQLite uses a partial index in its order only if it begins with the wanted column: so repeat the state.
Index("jobs_by_task", _j.task, _j.state, _j.id)
partial_index("jobs_by_state", _j.state, _j.since, _j.id, where=is_live)
partial_index("jobs_urgent", _j.state, _j.since, _j.id, where=is_urgent)
partial_index("jobs_to_broker", _j.state, _j.task, _j.id, where=is_state(jobs, JobState.DEFINED))
partial_index("jobs_to_wake", _j.state, _j.wake_at, _j.id, where=is_state(jobs, JobState.PENDING))
partial_index("jobs_to_lift", _j.state, _j.task, _j.id, where=is_state(jobs, JobState.PENDING))
partial_index(
    "jobs_to_match",
    *(_j.queue, _j.requirements, _j.priority.desc(), _j.created, _j.id),
    where=is_state(jobs, JobState.ACTIVATED),
)
# The index includes the attempt, so that a heartbeat reads no row.
partial_index("jobs_at_pilots", _j.pilot, _j.id, _j.attempt, where=is_state(jobs, *AT_A_PILOT))

is_measured = and_(is_state(jobs, JobState.RUNNING), _j.disk_io.is_not(None))
"""Running jobs whose pilot has reported their disk I/O."""
partial_index("jobs_by_disk_io", _j.state, _j.queue, _j.disk_io, where=is_measured)

is_unstarted = is_state(jobs, *UNSTARTED_JOBS)
partial_index(
    "jobs_to_borrow",
    *(_j.choice, _j.queue, _j.priority, _j.created.desc(), _j.id.desc()),
    where=and_(_j.choice.is_not(None), is_unstarted),
)

JOB_COLUMNS = (
    *(_j.id, _j.task, _j.kind, _j.share, _j.priority, _j.requirements, _j.state, _j.attempt),
    *(_j.since, _j.created, _j.queue, _j.pilot, _j.input_count, _j.events, _j.wake_at, _j.error),
    *(_j.choice, _j.job_index, _j.changes, _j.attempts_before, _j.departures),
)
JOB_STATES = {str(state): state for state in JobState}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job in its current state, and its last attempt's usage."""

    id: int
    task: int
    kind: JobKind
    state: JobState
    attempt: int
    queue: str
    site: str
    pilot: int | None
    priority: int
    since: float
    created: float
    started: float | None
    ended: float | None
    error: str
    exit_code: int | None
    cpu_seconds: float | None
    wall_seconds: float | None
    max_rss: float | None
    max_workdir: float | None
    disk_io: float | None
    index: int | None
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails(JobView):
    """A job with its history, oldest first."""

    events: tuple[EventView, ...]
    failed_attempts: tuple[FailedAttempt, ...]


def job(row: Sequence[Any], inputs: tuple[str, ...]) -> Job:
    """Make a job of a row of :data:`JOB_COLUMNS`."""
    return Job(
        id=row[0],
        task=row[1],
        kind=row[2],
        share=row[3],
        priority=row[4],
        requirements=row[5],
        state=JOB_STATES[row[6]],
        attempt=row[7],
        since=row[8],
        created=row[9],
        queue=row[10],
        pilot=row[11],
        inputs=inputs,
        events=row[13],
        wake_at=row[14],
        error=row[15],
        choice=row[16],
        index=row[17],
        changes=row[18],
        attempts_before=row[19],
        departures=row[20],
    )


_SHOWN = (
    *("id", "task", "kind", "attempt", "queue", "pilot", "priority", "since", "created", "started", "ended"),
    *("error", "exit_code", "cpu_seconds", "wall_seconds", "max_rss", "max_workdir", "disk_io"),
)
JOB_VIEW = select(_j.state, _j.job_index, *(_j[name] for name in _SHOWN))


def shown(row: Any, sites: Mapping[str, str], specs: Mapping[int, TaskSpec]) -> dict[str, Any]:
    """Return the fields of a :class:`JobView` from a row of :data:`JOB_VIEW`, the sites of queues, and the
    specification of its task."""
    values = {name: getattr(row, name) for name in _SHOWN}
    site = sites.get(row.queue, "")
    spec = specs.get(row.task)
    own = parameters_of(spec, row.job_index) if spec else {}
    return {
        **values,
        "state": JobState(row.state),
        "site": site,
        "index": row.job_index,
        "parameters": own,
    }
