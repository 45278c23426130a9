"""Delete the records of ended tasks for a person, and find their files that no other task needs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, select

from pilotage.model.records.states import (
    LIVE_JOBS,
    LIVE_PUBLICATIONS,
    LIVE_TASKS,
    LIVE_TRANSFERS,
    PublicationState,
    TaskState,
)
from pilotage.model.records.work import Replica
from pilotage.model.values.types import DESCRIBED
from pilotage.store.commit.archive import LARGER, What, delete_records
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among
from pilotage.store.files.catalogue import asked_by_tasks
from pilotage.store.files.datasets import dataset_files
from pilotage.store.files.publications import publications
from pilotage.store.files.table import IS_COPY, files, replicas
from pilotage.store.history.decisions import decisions
from pilotage.store.jobs.logs import logs
from pilotage.store.jobs.table import job_inputs, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import SpecCache, tasks
from pilotage.store.tasks.workflows import predecessors
from pilotage.store.transfers.table import transfers

SLICE = 2000
"""Most jobs that a transaction deletes: others write in between."""

MOST_FILES = 10_000
"""Most files that one decision forgets."""

_t, _j, _i, _f, _r = tasks.c, jobs.c, job_inputs.c, files.c, replicas.c
_LIMIT: Any = bindparam("limit", type_=None)
_elsewhere = replicas.alias()
_HELD_ELSEWHERE = select(_elsewhere.c.file).where(
    _elsewhere.c.file == _r.file, _elsewhere.c.storage != _r.storage
)
_reader = jobs.alias()
_OF_OTHERS = (
    select(_i.file)
    .join(_reader, _reader.c.id == _i.job)
    .where(_i.file == _f.name, ~among(_reader.c.task, "ids"))
)
_READ = _OF_OTHERS.where(has_state(_reader, *LIVE_JOBS))
_MOVING = select(transfers.c.file).where(transfers.c.file == _f.name, is_state(transfers, *LIVE_TRANSFERS))
_IN_DATASET = select(dataset_files.c.file).where(dataset_files.c.file == _f.name)
_PUBLISHED = select(publications.c.id).where(
    publications.c.file == _f.name, has_state(publications, PublicationState.PUBLISHED, *LIVE_PUBLICATIONS)
)
_IS_OUTPUT = among(_f.task, "ids") & _f.task.is_not(None) & _f.job.is_not(None)
_ASKED = among(_f.name, "asked")
_MAY_GO = ~(_READ.exists() | _MOVING.exists() | _IN_DATASET.exists() | _PUBLISHED.exists() | _ASKED)
"""Outputs that no dataset has, and that nobody reads, will read, moves or publishes."""

_MINE = (
    select(_i.file)
    .join(jobs, _j.id == _i.job)
    .where(among(_j.task, "ids"))
    .union(select(_f.name).where(_IS_OUTPUT).correlate(None))
)
_COPIES = (
    IS_COPY,
    _f.name.in_(_MINE),
    _HELD_ELSEWHERE.exists(),
    ~_OF_OTHERS.exists(),
    ~_MOVING.exists(),
    ~_ASKED,
)
_AT_STORAGES = replicas.join(files, _f.name == _r.file)
_VOLUME = (func.count(_f.name.distinct()), func.coalesce(func.sum(_f.size), 0))
_LATER = (
    select(predecessors.c.task)
    .join(tasks, _t.id == predecessors.c.task)
    .where(among(predecessors.c.predecessor, "ids"), has_state(tasks, TaskState.WAITING))
    .where(~among(predecessors.c.task, "ids"))
    .order_by(predecessors.c.task)
    .limit(1)
)
_LOCKED = select(_t.id, _t.state).where(among(_t.id, "ids")).order_by(_t.id)
_LIVE = select(_j.task).where(among(_j.task, "ids"), has_state(jobs, *LIVE_JOBS)).order_by(_j.task).limit(1)
_JOBS = select(_j.id).where(among(_j.task, "ids")).order_by(_j.id).limit(_LIMIT)
_CHOICES = select(decisions.c.id).where(among(decisions.c.task, "ids")).order_by(decisions.c.id).limit(_LIMIT)
_LOGS = delete(logs).where(logs.c.kind == "job", among(logs.c.record, "ids"))


class NotEnded(Exception):
    """A task has not ended, or another one waits for it."""

    def __init__(self, task: int, state: str, waiting: int | None = None) -> None:
        super().__init__(task, state, waiting)
        self.task, self.state, self.waiting = task, state, waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVolume:
    """A number of files, and their bytes at all storages together."""

    __pydantic_config__ = DESCRIBED

    files: int
    """How many."""
    bytes: int
    """Bytes at storages: a file at two of them counts twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """The files of some tasks, by what may become of them."""

    outputs: FileVolume
    """Outputs that nobody else needs."""
    kept: FileVolume
    """Outputs that a dataset has, or that a job reads, or that are being moved or published."""
    copies: FileVolume
    """Copies that Pilotage made, of files that are elsewhere too, and that no other task has read."""


class Deletion:
    """Reads what belongs to ended tasks, and deletes their records."""

    def __init__(self, database: Database, specs: SpecCache) -> None:
        self._database = database
        self._specs = specs

    def check(self, ids: Sequence[int]) -> None:
        """Raise ``NotEnded`` if one of the tasks is live, has live jobs, or is waited for."""
        self._database.read(lambda connection: _check(connection, ids))

    def files(self, ids: Sequence[int], outputs: bool) -> TaskFiles:
        """Count the files of tasks at storages. With ``outputs``, copies of outputs count as outputs."""
        own = _IS_OUTPUT & _MAY_GO

        def read(connection: Connection) -> TaskFiles:
            values = self._values(connection, ids)

            def volume(*conditions: ColumnElement[bool]) -> FileVolume:
                query = select(*_VOLUME).select_from(_AT_STORAGES).where(*conditions)
                count, size = connection.execute(query, values).one()
                return FileVolume(files=int(count), bytes=int(size))

            copies = (*_COPIES, ~own) if outputs else _COPIES
            return TaskFiles(outputs=volume(own), kept=volume(_IS_OUTPUT, ~_MAY_GO), copies=volume(*copies))

        return self._database.read(read)

    def copies(self, ids: Sequence[int]) -> list[Replica]:
        """Return some copies that no other task needs."""
        query = select(_r.file, _r.storage, _r.path).select_from(_AT_STORAGES).where(*_COPIES)
        query = query.order_by(_r.file, _r.storage).limit(MOST_FILES)
        return self._database.read(
            lambda connection: _read(connection.execute(query, self._values(connection, ids)))
        )

    def outputs(self, ids: Sequence[int]) -> tuple[list[str], list[Replica]]:
        """Return some outputs that no other task needs, by identifier, and all their replicas."""
        names = select(_f.name).where(_IS_OUTPUT, _MAY_GO).order_by(_f.name).limit(MOST_FILES)

        def read(connection: Connection) -> tuple[list[str], list[Replica]]:
            gone = list(connection.execute(names, self._values(connection, ids)).scalars())
            query = select(_r.file, _r.storage, _r.path).where(among(_r.file, "names"))
            return gone, _read(connection.execute(query, {"names": gone}))

        return self._database.read(read)

    def delete(self, ids: Sequence[int]) -> None:
        """Delete the records of tasks: jobs with their logs, reasons, then the tasks. Raises ``NotEnded``."""
        while self._database.write(lambda connection: _delete_some(connection, ids)) != "task":
            pass

    def _values(self, connection: Connection, ids: Sequence[int]) -> dict[str, Any]:
        """Return the tasks, and the files that jobs will read that are not made yet."""
        asked = asked_by_tasks(RecordReader(connection, self._specs))
        return {"ids": list(ids), "asked": sorted(asked)}


def _read(rows: Iterable[Any]) -> list[Replica]:
    return [Replica(file=file, storage=storage, path=path) for file, storage, path in rows]


def _check(connection: Connection, ids: Sequence[int], locking: bool = False) -> None:
    values = {"ids": list(ids)}
    query: Select[Any] = _LOCKED.with_for_update() if locking else _LOCKED
    for id_, state in connection.execute(query, values).all():
        if state in LIVE_TASKS:
            raise NotEnded(id_, state)
    if (live := connection.execute(_LIVE, values).scalar()) is not None:
        raise NotEnded(live, "at work")
    if (later := connection.execute(_LATER, values).scalar()) is not None:
        raise NotEnded(ids[0], "waited for", later)


def _delete_some(connection: Connection, ids: Sequence[int]) -> What:
    """Delete some records of tasks that have ended. Return their kind: tasks are the last."""
    _check(connection, ids, locking=True)
    values = {"ids": list(ids)}
    if gone := connection.execute(_JOBS, values | {"limit": SLICE}).scalars().all():
        connection.execute(_LOGS, {"ids": gone})
        delete_records(connection, "job", gone)
        return "job"
    if gone := connection.execute(_CHOICES, values | {"limit": SLICE // LARGER}).scalars().all():
        delete_records(connection, "choice", gone)
        return "choice"
    delete_records(connection, "task", ids)
    return "task"
