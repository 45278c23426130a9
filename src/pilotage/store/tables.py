"""The tables, each row a record of the model, and the indexes that keep a pass from scanning what is queued.

Times are seconds since 1970 UTC, sizes bytes, memory MB, as in the model. Identifiers of tasks, jobs,
transfers, pilots and decisions are given by the commit, the only writer, one after the other.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    func,
    literal_column,
)

from pilotage.model.priorities import HIGH_PRIORITY
from pilotage.model.states import AT_A_PILOT, JobState, Kind, State, TransferState

metadata = MetaData()

Id = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite makes a column the row's own number only if its type reads INTEGER."""


def _id() -> Column[int]:
    return Column("id", Id, primary_key=True, autoincrement=False)


def _text(name: str) -> Column[str]:
    return Column(name, String, nullable=False, server_default="")


def _owner() -> list[Column[Any]]:
    """The columns of an ``Identity``; names alone would be taken for the record's own."""
    return [_text("owner"), _text("vo"), _text("group"), _text("vo_role")]


def _life() -> list[Column[Any]]:
    """What every record with states has; tasks and pilots stay at their first attempt."""
    return [
        Column("state", String, nullable=False),
        Column("attempt", Integer, nullable=False, server_default="1"),
        Column("created", Double, nullable=False),
        Column("since", Double, nullable=False),
        _text("error"),
    ]


tasks = Table(
    "tasks",
    metadata,
    _id(),
    _text("name"),
    _text("share"),
    Column("priority", Integer, nullable=False),
    *_owner(),
    *_life(),
    Column("spec", Text, nullable=False),
    Column("measured", Text),
    Index("tasks_by_state", "state", "id"),
    Index("tasks_by_owner", "vo", "owner", "id"),
)

jobs = Table(
    "jobs",
    metadata,
    _id(),
    Column("task", Id, ForeignKey("tasks.id"), nullable=False),
    Column("kind", String, nullable=False),
    _text("share"),
    Column("priority", Integer, nullable=False),
    _text("requirements"),
    *_life(),
    _text("queue"),
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
)

job_inputs = Table(
    "job_inputs",
    metadata,
    Column("job", Id, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("file", String, nullable=False),
    Index("job_inputs_by_file", "file", "job"),
)

files = Table(
    "files",
    metadata,
    Column("name", String, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("checksum", String, nullable=False),
    Column("task", Id),
    Column("job", Id),
)
replicas = Table(
    "replicas",
    metadata,
    Column("file", String, ForeignKey("files.name"), primary_key=True),
    Column("storage", String, primary_key=True),
)

transfers = Table(
    "transfers",
    metadata,
    _id(),
    Column("file", String, nullable=False),
    Column("source", String, nullable=False),
    _text("source_path"),
    Column("destination", String, nullable=False),
    Column("direction", String, nullable=False),
    _text("share"),
    Column("priority", Integer, nullable=False),
    *_life(),
    Column("emergency", Boolean, nullable=False),
    Column("wake_at", Double),
    Column("heartbeat", Double),
    Column("started", Double),
    Column("ended", Double),
    Index("transfers_by_state", "state", "since", "id"),
    Index("transfers_by_file", "file", "state"),
)

pilots = Table(
    "pilots",
    metadata,
    _id(),
    Column("queue", String, nullable=False),
    _text("requirements"),
    Column("kind", String, nullable=False),
    *_owner(),
    *_life(),
    _text("submit_pool"),
    Column("cores", Integer, nullable=False),
    Column("memory", Double, nullable=False),
    Column("walltime", Double, nullable=False),
    _text("reference"),
    Column("heartbeat", Double),
    Column("matched", Integer, nullable=False),
    Column("ended", Double),
    Index("pilots_by_state", "state", "since", "id"),
    Index("pilots_by_queue", "queue", "id"),
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("kind", String, nullable=False),
    Column("record", Id, nullable=False),
    Column("task", Id),
    Column("attempt", Integer, nullable=False),
    Column("source", String),
    Column("target", String, nullable=False),
    Column("time", Double, nullable=False),
    _text("cause"),
    _text("actor"),
    Column("decision", Id),
    Index("events_by_record", "kind", "record"),
)

decisions = Table(
    "decisions",
    metadata,
    _id(),
    Column("task", Id, nullable=False),
    Column("step", String, nullable=False),
    Column("time", Double, nullable=False),
    _text("actor"),
    Column("moved", Boolean, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Index("decisions_by_task", "task", "id"),
)

counters = Table(
    "counters",
    metadata,
    Column("counter", String, primary_key=True),
    Column("first", String, primary_key=True),
    Column("second", String, primary_key=True),
    Column("state", String, primary_key=True),
    Column("count", Integer, nullable=False),
)

queue_reports = Table(
    "queue_reports",
    metadata,
    Column("queue", String, primary_key=True),
    Column("last_pilot", Double),
    Column("last_start", Double),
)

federations = Table(
    "federations",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    _text("actor"),
    Column("document", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("hash", String, primary_key=True),
    Column("role", String, nullable=False),
    *_owner(),
    Column("pilot", Id),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Index("tokens_by_pilot", "pilot"),
    Index("tokens_by_expiry", "expires"),
)

RECORDS: dict[Kind, Table] = {"task": tasks, "job": jobs, "transfer": transfers, "pilot": pilots}


def is_state(table: FromClause, *states: State) -> ColumnElement[bool]:
    """The condition that a row is in one of these states, with the states written out.

    A partial index is used only where the query repeats the index's condition word for word.
    """
    words = ", ".join(f"'{state}'" for state in states)
    if len(states) == 1:
        return table.c.state == literal_column(words)
    return table.c.state.op("IN", return_type=Boolean())(literal_column(f"({words})"))


def has_state(table: FromClause, *states: State) -> ColumnElement[bool]:
    """The same of rows that are found by something else: no index of states will be used for it."""
    return func.coalesce(table.c.state, "").in_([str(state) for state in states])


def _where(condition: ColumnElement[bool]) -> dict[str, Any]:
    return {"sqlite_where": condition, "postgresql_where": condition}


# SQLite takes a partial index in its order only if it begins with what is asked for: hence state, again.
_j, _x, _f = jobs.c, transfers.c, files.c
is_urgent = _j.priority >= literal_column(str(HIGH_PRIORITY))
Index("files_by_task", _f.task, _f.name, **_where(_f.task.is_not(None)))
Index("files_by_job", _f.job, **_where(_f.job.is_not(None)))

Index("jobs_by_task", _j.task, _j.state, _j.id)
Index("jobs_by_state", _j.state, _j.since, _j.id)
Index("jobs_urgent", _j.state, _j.since, _j.id, **_where(is_urgent))
Index("jobs_to_broker", _j.state, _j.task, _j.id, **_where(is_state(jobs, JobState.DEFINED)))
Index("jobs_to_wake", _j.state, _j.wake_at, _j.id, **_where(is_state(jobs, JobState.PENDING)))
Index("jobs_to_lift", _j.state, _j.task, _j.id, **_where(is_state(jobs, JobState.PENDING)))
Index(
    "jobs_to_match",
    *(_j.queue, _j.requirements, _j.priority.desc(), _j.id),
    **_where(is_state(jobs, JobState.ACTIVATED)),
)
Index("jobs_at_pilots", _j.pilot, _j.id, **_where(is_state(jobs, *AT_A_PILOT)))

Index("decisions_unmoved", decisions.c.task, **_where(decisions.c.moved.is_(False)))

Index(
    "transfers_to_start",
    *(_x.share, _x.direction, _x.priority.desc(), _x.id),
    **_where(is_state(transfers, TransferState.QUEUED)),
)
Index(
    "transfers_oldest",
    _x.share,
    _x.direction,
    _x.since,
    _x.id,
    **_where(is_state(transfers, TransferState.QUEUED)),
)
Index(
    "transfers_once",
    *(_x.file, _x.destination),
    unique=True,
    **_where(is_state(transfers, TransferState.QUEUED, TransferState.DELIVERING)),
)
