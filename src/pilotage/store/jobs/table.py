"""Jobs and their inputs: tables, indexes for passes' queries, rows, and what people see."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
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
from pilotage.model.records.work import Job, JobNow, LastAttempt, TaskSpec
from pilotage.model.rules.job_order import HIGH_PRIORITY
from pilotage.model.rules.job_payload import parameters_of
from pilotage.store.database.columns import Id, is_state, metadata, partial_index
from pilotage.store.database.record_columns import maker, read_columns, record_columns, record_table
from pilotage.store.history.history import EventView

jobs = record_table(
    "jobs",
    Job,
    *record_columns(LastAttempt),
    Column("input_count", Integer, nullable=False),
    ForeignKeyConstraint(["task"], ["tasks.id"]),
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
partial_index("jobs_by_state", _j.state, _j.since, _j.id, condition=is_live)
partial_index("jobs_urgent", _j.state, _j.since, _j.id, condition=is_urgent)
partial_index("jobs_to_broker", _j.state, _j.task, _j.id, condition=is_state(jobs, JobState.DEFINED))
partial_index("jobs_to_wake", _j.state, _j.wake_at, _j.id, condition=is_state(jobs, JobState.PENDING))
partial_index("jobs_to_lift", _j.state, _j.task, _j.id, condition=is_state(jobs, JobState.PENDING))
partial_index(
    "jobs_to_match",
    *(_j.queue, _j.requirements, _j.priority.desc(), _j.created, _j.id),
    condition=is_state(jobs, JobState.ACTIVATED),
)
# The index includes the attempt, so that a heartbeat reads no row.
partial_index("jobs_at_pilots", _j.pilot, _j.id, _j.attempt, condition=is_state(jobs, *AT_A_PILOT))

is_measured = and_(is_state(jobs, JobState.RUNNING), _j.disk_io.is_not(None))
"""Running jobs with a report of their disk I/O."""
partial_index("jobs_by_disk_io", _j.state, _j.queue, _j.disk_io, condition=is_measured)

is_unstarted = is_state(jobs, *UNSTARTED_JOBS)
partial_index(
    "jobs_to_borrow",
    *(_j.choice, _j.queue, _j.priority, _j.created.desc(), _j.id.desc()),
    condition=and_(_j.choice.is_not(None), is_unstarted),
)

JOB_COLUMNS = (*read_columns(jobs, Job), _j.input_count)
INPUT_COUNT = len(JOB_COLUMNS) - 1
JOB_STATES = {str(state): state for state in JobState}

job = maker(Job, "inputs")
"""Makes a job of a row of ``JOB_COLUMNS`` and its inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView(LastAttempt, JobNow):
    """A job in its current state, and its last attempt's usage."""

    site: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails(JobView):
    """A job with its history, oldest first."""

    events: tuple[EventView, ...]
    failed_attempts: tuple[FailedAttempt, ...]


_SHOWN = tuple(field.name for field in fields(JobView) if field.name in _j)
JOB_VIEW = select(*(_j[name] for name in _SHOWN))


def view_fields(row: Any, sites: Mapping[str, str], specs: Mapping[int, TaskSpec]) -> dict[str, Any]:
    """Return the fields of a ``JobView`` from a row that begins as ``JOB_VIEW``, the sites of
    queues, and the specification of its task."""
    values = dict(zip(_SHOWN, row, strict=False))
    spec = specs.get(row.task)
    return {
        **values,
        "state": JobState(row.state),
        "site": sites.get(row.queue, ""),
        "parameters": parameters_of(spec, values["index"]) if spec else {},
    }
