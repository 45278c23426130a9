"""Files and their replicas: tables, results of tasks, and views of a job's outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Double,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Table,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    update,
)

from pilotage.model.records.data import CorrectedFile, File, Replica
from pilotage.model.records.states import JobState
from pilotage.model.records.work import JobKind
from pilotage.model.values.paths import COPIES, UPLOADS
from pilotage.model.values.urls import file_url
from pilotage.store.database.columns import has_state, metadata, partial_index, text_column
from pilotage.store.database.record_columns import maker, read_columns, record_columns
from pilotage.store.jobs.table import jobs

files = Table(
    "files",
    metadata,
    *record_columns(File),
    # The person who described the file, as in events. Empty once an operator or the bytes confirm it.
    text_column("author"),
    PrimaryKeyConstraint("name"),
)

replicas = Table(
    "replicas",
    metadata,
    *record_columns(Replica),
    Column("since", Double),
    PrimaryKeyConstraint("file", "storage"),
    ForeignKeyConstraint(["file"], ["files.name"]),
    sqlite_with_rowid=False,
)

_f = files.c
FILE_COLUMNS, REPLICA_COLUMNS = read_columns(files, File), read_columns(replicas, Replica)
file, replica = maker(File), maker(Replica)

partial_index("files_by_task", _f.task, _f.name, condition=_f.task.is_not(None))
_r = replicas.c

# Literal, so that the query repeats the index's condition word for word.
_START: ColumnElement[int] = literal_column("1")
_LENGTH: ColumnElement[int] = literal_column(str(len(COPIES) + 1))
_FOLDER: ColumnElement[str] = literal_column(f"'{COPIES}/'")
IS_COPY = func.substr(_r.path, _START, _LENGTH) == _FOLDER
"""The condition for copies that Pilotage made: originals in other catalogues may have their own paths."""

_UPLOADS: ColumnElement[str] = literal_column(f"'{UPLOADS}/'")
_UPLOADS_LENGTH: ColumnElement[int] = literal_column(str(len(UPLOADS) + 1))
IS_UPLOAD = func.substr(_r.path, _START, _UPLOADS_LENGTH) == _UPLOADS
"""The condition for files that people uploaded."""

partial_index("replicas_uploads", _r.path, _r.file, condition=IS_UPLOAD)
partial_index("replicas_copies", _r.since, condition=IS_COPY)
partial_index("files_by_job", _f.job, condition=_f.job.is_not(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """A copy, and its URL."""

    storage: str
    url: str

    @classmethod
    def of(cls, replica: Replica, urls: Mapping[str, str]) -> "ReplicaView":
        """Return the view of a replica, given the URLs of storages."""
        base = urls.get(replica.storage, "")
        return cls(storage=replica.storage, url=base and file_url(base, replica.place))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """A file that a job made."""

    name: str
    file: str
    size: int
    checksum: str
    job: int
    kind: JobKind
    index: int | None
    parameters: Mapping[str, str]
    replicas: tuple[ReplicaView, ...]


_CORRECT = (
    update(files)
    .where(
        _f.name == bindparam("of"),
        _f.job.is_(None),
        _f.size == bindparam("former_size"),
        _f.checksum == bindparam("former_checksum"),
    )
    .values(size=bindparam("to_size"), checksum=bindparam("to_checksum"), author=bindparam("its_author"))
)
_FORGET = delete(replicas).where(_r.file == bindparam("of"))


def correct(connection: Connection, corrections: Sequence[CorrectedFile]) -> None:
    """Correct the descriptions of files, and forget the replicas of the wrong ones."""
    for correction in corrections:
        values = {"of": correction.name, "to_size": correction.size, "to_checksum": correction.checksum}
        values["its_author"] = correction.author
        former = {"former_size": correction.former_size, "former_checksum": correction.former_checksum}
        if connection.execute(_CORRECT, values | former).rowcount:
            connection.execute(_FORGET, {"of": correction.name})


_j = jobs.c
_OF_TASK = (
    select(_f.name, _f.size, _f.checksum, _j.kind)
    .join(jobs, _j.id == _f.job)
    .where(_f.task == bindparam("task"), _f.task.is_not(None), has_state(jobs, JobState.FINISHED))
    .order_by(_f.name)
)
_MERGED = _OF_TASK.where(_j.kind == "merge")


def results(connection: Connection, task: int, limit: int | None = None) -> list[File]:
    """Return the outputs of a task's successful jobs, at most ``limit``; only the merge job's if there was
    one."""
    rows = connection.execute(_MERGED.limit(limit), {"task": task}).all()
    rows = rows or connection.execute(_OF_TASK.limit(limit), {"task": task}).all()
    return [File(name=name, size=size, checksum=checksum) for name, size, checksum, _ in rows]
