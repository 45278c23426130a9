"""The archive: write ended records slice by slice as lines of a file, then delete them.

A task is archived if it ended before a given time and has no live jobs: first its jobs, then the reasons of
its decisions, then the task. Transfers, pilots, publications and notifications are archived if they ended
before that time. The deletions update the counters, and numbers are never reused. Outputs and their replicas
stay, because others may read them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, String, bindparam, cast, delete, func, select

from pilotage.model.documents.serialization import to_document
from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.notifications import Notification
from pilotage.model.records.states import AT_A_PILOT, LIVE, LIVE_JOBS, STATES, Kind, TaskState
from pilotage.model.rules import webhooks
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among
from pilotage.store.files import publications as publication_rows
from pilotage.store.files.publications import PUBLICATION_COLUMNS
from pilotage.store.history.decisions import dated, decisions, forget
from pilotage.store.history.history import events
from pilotage.store.jobs import table as job_rows
from pilotage.store.jobs.borrowings import borrowings
from pilotage.store.jobs.counters import KEY_COLUMNS, Deltas, counts
from pilotage.store.jobs.table import JOB_VIEW, job_inputs, jobs
from pilotage.store.people import grants as grant_rows
from pilotage.store.people import notifications as notification_rows
from pilotage.store.pilots import table as pilot_rows
from pilotage.store.pilots.table import PILOT_COLUMNS, pilots
from pilotage.store.records import RECORDS
from pilotage.store.servers import servers
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.table import TASK_VIEW, SpecCache, tasks
from pilotage.store.tasks.workflows import predecessors, workflows
from pilotage.store.transfers import table as transfer_rows
from pilotage.store.transfers.table import TRANSFER_COLUMNS, transfers

TASKS = 200
"""Tasks examined together."""

LARGER = 20
"""Assumed size of a decision's reasons, as a multiple of a job's size."""

ARCHIVE = "archive"
"""The name of its lease: one process at a time writes each record to a file, and deletes it."""

What = Literal["job", "choice", "task", "transfer", "pilot", "publication", "notification"]

_t, _j, _c, _d, _x, _p = tasks.c, jobs.c, counts.c, decisions.c, transfers.c, pilots.c
_LIMIT: Any = bindparam("limit", type_=None)

_LIVE_OF_TASK = (
    select(_c.first)
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_([str(state) for state in LIVE_JOBS]))
    # The keys of all counters are texts.
    .where(_c.first == cast(_t.id, String))
    .group_by(_c.first)
    .having(func.sum(_c.count) > 0)
)


def _ended(kind: Kind) -> ColumnElement[bool]:
    table = RECORDS[kind]
    states = [state for state in STATES[kind] if state not in LIVE[kind]]
    return is_state(table, *states) & (table.c.since <= bindparam("before"))


_later = tasks.alias("later")
_AWAITED = (
    select(predecessors.c.task)
    .join(_later, _later.c.id == predecessors.c.task)
    .where(predecessors.c.predecessor == _t.id, has_state(_later, TaskState.WAITING))
    .correlate(tasks)
)
"""A task that waits for others needs their states and outputs."""

_TASKS = (
    select(_t.id)
    .where(_ended("task"), ~_LIVE_OF_TASK.exists(), ~_AWAITED.exists())
    .order_by(_t.id)
    .limit(TASKS)
)
_EMPTY_WORKFLOWS = (
    delete(workflows)
    .where(~select(_t.id).where(_t.workflow == workflows.c.id, _t.workflow.is_not(None)).exists())
    .returning(workflows.c.id)
)
_JOBS = JOB_VIEW.add_columns(_j.history).where(among(_j.task, "tasks")).order_by(_j.task, _j.id).limit(_LIMIT)
_INPUTS = (
    select(job_inputs.c.job, job_inputs.c.file)
    .where(among(job_inputs.c.job, "ids"))
    .order_by(job_inputs.c.job, job_inputs.c.position)
)
_CHOICES = (
    select(_d.id, _d.time, _d.facts, _d.document)
    .where(among(_d.task, "tasks"))
    .order_by(_d.task, _d.id)
    .limit(_LIMIT)
)
_WHOLE = TASK_VIEW.add_columns(_t.vo, _t.measured, _t.history).where(among(_t.id, "tasks")).order_by(_t.id)
_HOLDING = select(_j.pilot).where(_j.pilot == _p.id, is_state(jobs, *AT_A_PILOT))
_TRANSFERS = select(*TRANSFER_COLUMNS, _x.history).where(_ended("transfer")).order_by(_x.id).limit(_LIMIT)
_PILOTS = (
    select(*PILOT_COLUMNS, _p.history)
    .where(_ended("pilot"), ~_HOLDING.exists())
    .order_by(_p.id)
    .limit(_LIMIT)
)
_PUBLICATIONS = (
    select(*PUBLICATION_COLUMNS, publication_rows.publications.c.history)
    .where(_ended("publication"))
    .order_by(publication_rows.publications.c.id)
    .limit(_LIMIT)
)
_NOTIFICATIONS = (
    select(*notification_rows.NOTIFICATION_COLUMNS, notification_rows.notifications.c.history)
    .where(_ended("notification"))
    .order_by(notification_rows.notifications.c.id)
    .limit(_LIMIT)
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Records of one kind: their numbers, and a JSON line for each. The line names the kind."""

    kind: What
    ids: tuple[int, ...]
    lines: tuple[bytes, ...]


class Archive:
    """Reads records that ended long ago, and deletes them once they are stored elsewhere."""

    def __init__(self, database: Database, specs: SpecCache) -> None:
        self._database = database
        self._specs = specs

    def next(self, before: float, limit: int) -> Slice | None:
        """Return at most ``limit`` records that ended before a time (s since 1970 UTC); None if there are
        none."""
        return self._database.read(lambda connection: self._next(connection, before, limit))

    def delete(self, slice_: Slice, server: str) -> None:
        """Delete the records of a slice. Skip records that are gone already.

        Raises ``LeaseLost`` unless the ``server`` has the lease of ``ARCHIVE``.
        """

        def write(connection: Connection) -> bool:
            servers.require(connection, ARCHIVE, server)
            delete_records(connection, slice_.kind, slice_.ids)
            return True

        self._database.write(write)

    def _next(self, connection: Connection, before: float, limit: int) -> Slice | None:
        values: dict[str, Any] = {"before": before, "limit": limit}
        ended = list(connection.execute(_TASKS, values).scalars())
        if ended:
            values["tasks"] = ended
            job_rows = connection.execute(_JOBS, values).all()
            if job_rows:
                return _jobs(connection, job_rows)
            # Reasons are many times as large as jobs, so a slice has fewer of them (rounded up).
            if choices := connection.execute(_CHOICES, values | {"limit": -(-limit // LARGER)}).all():
                readable = dated(connection, choices)
                pairs = zip(choices, readable, strict=True)
                return _slice("choice", ((row.id, to_document(choice)) for row, choice in pairs))
            return self._tasks(connection, ended)
        for kind, query, read in _OTHERS:
            if rows := connection.execute(query, values).all():
                happened = events(connection, [row.history for row in rows])
                return _slice(
                    kind,
                    (
                        (row.id, to_document(read(row)) | {"events": _documents(transitions)})
                        for row, transitions in zip(rows, happened, strict=True)
                    ),
                )
        return None

    def _tasks(self, connection: Connection, ended: Sequence[int]) -> Slice:
        rows = connection.execute(_WHOLE, {"tasks": ended}).all()
        specs = self._specs.of(connection, ended)
        happened = events(connection, [row.history for row in rows])
        return _slice(
            "task",
            (
                (row.id, _task(row, specs, transitions))
                for row, transitions in zip(rows, happened, strict=True)
            ),
        )


def _notification(row: Any) -> Notification:
    notification = notification_rows.notification(row)
    return replace(notification, receiver=webhooks.of_receiver(notification.receiver))


_OTHERS: tuple[tuple[What, Select[Any], Any], ...] = (
    ("transfer", _TRANSFERS, transfer_rows.transfer),
    ("pilot", _PILOTS, pilot_rows.pilot),
    ("publication", _PUBLICATIONS, publication_rows.publication),
    ("notification", _NOTIFICATIONS, _notification),
)


def _jobs(connection: Connection, rows: Sequence[Any]) -> Slice:
    ids = [row.id for row in rows]
    inputs: dict[int, list[str]] = {id_: [] for id_ in ids}
    for job, file in connection.execute(_INPUTS, {"ids": ids}):
        inputs[job].append(file)
    happened = events(connection, [row.history for row in rows])
    return _slice(
        "job",
        (
            (row.id, _job(row) | {"inputs": inputs[row.id], "events": _documents(transitions)})
            for row, transitions in zip(rows, happened, strict=True)
        ),
    )


def _job(row: Any) -> dict[str, Any]:
    # The task's line has the rows of its parameters; sites may change.
    left_out = ("site", "parameters")
    return {name: value for name, value in job_rows.view_fields(row, {}, {}).items() if name not in left_out}


def _task(row: Any, specs: Mapping[int, Any], transitions: Sequence[Any]) -> dict[str, Any]:
    view = {name: value for name, value in task_rows.view_fields(row, {}).items() if name != "jobs"}
    measured = task_rows.measurement(row.measured)
    return view | {
        "vo": row.vo,
        "spec": to_document(webhooks.of_spec(specs[row.id])),
        "measured": None if measured is None else to_document(measured),
        "events": _documents(transitions),
    }


def _documents(transitions: Iterable[Any]) -> list[Any]:
    return [to_document(event) for event in transitions]


def _slice(kind: What, records: Iterable[tuple[int, Mapping[str, Any]]]) -> Slice:
    pairs = list(records)
    lines = (json.dumps({"record": kind, **document}, separators=(",", ":")) for _, document in pairs)
    return Slice(kind, tuple(id_ for id_, _ in pairs), tuple(line.encode() + b"\n" for line in lines))


def delete_records(connection: Connection, kind: What, numbers: Sequence[int]) -> None:
    """Delete ended records, and subtract them from the counters. Skip records that are gone already."""
    ids = {"ids": list(numbers)}
    if kind == "choice":
        forget(connection, numbers)
        return
    table = RECORDS[kind].c
    keys = [table[name] for name in KEY_COLUMNS[kind]]
    # Locked, so that the archive and a person who deletes a task do not both count them out.
    query = select(table.state, *keys).where(among(table.id, "ids")).order_by(table.id).with_for_update()
    counted = Counter(map(tuple, connection.execute(query, ids)))
    if kind == "task":
        freed = task_rows.volumes_of(connection, numbers)
        task_rows.add_volumes(connection, {owner: -stored for owner, stored in freed.items()})
    deltas = Deltas(connection)
    deltas.fold()
    for (state, *values), count in counted.items():
        deltas.add(kind, values, state, -count)
    deltas.write(connection)
    if kind == "job":
        for of_jobs in (job_inputs, borrowings):
            connection.execute(delete(of_jobs).where(among(of_jobs.c.job, "ids")), ids)
    if kind == "task":
        connection.execute(delete(predecessors).where(among(predecessors.c.task, "ids")), ids)
        grant_rows.forget(connection, "task", map(str, numbers))
    connection.execute(delete(RECORDS[kind]).where(among(table.id, "ids")), ids)
    if kind == "task":
        empty = connection.execute(_EMPTY_WORKFLOWS).scalars().all()
        grant_rows.forget(connection, "workflow", map(str, empty))
