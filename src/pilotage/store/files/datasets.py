"""Datasets: named sets of files. The store keeps every version."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Integer,
    String,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from pilotage.model.records.states import LIVE_TASKS
from pilotage.model.records.work import File, NewDatasetVersion
from pilotage.store.database import bulk
from pilotage.store.database.columns import begins, has_state, metadata, text_column
from pilotage.store.database.engine import Database
from pilotage.store.files.table import IS_COPY, files, replicas
from pilotage.store.tasks.table import tasks

registrations = Table(
    "registrations",
    metadata,
    Column("actor", String, primary_key=True),
    Column("rows", Integer, nullable=False),
)

OF_USERS = ("user:", "manager:")
"""The beginnings of names of people who are no operators, as events name them."""

_ROWS = select(registrations.c.rows).where(registrations.c.actor == bindparam("of"))


def add_registrations(connection: Connection, actor: str, rows: int) -> None:
    """Add rows that a person registered (negative: deleted). Do not count operators and steps."""
    if rows and actor.startswith(OF_USERS):
        bulk.add(connection, registrations, ("actor",), "rows", [(actor, rows)])


def registered_by(database: Database, actor: str) -> int:
    """Return how many rows a person, named as in events, has registered."""
    return database.read(lambda connection: connection.execute(_ROWS, {"of": actor}).scalar() or 0)


dataset_versions = Table(
    "dataset_versions",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("created", Double, nullable=False),
    text_column("author"),
    Column("files", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
)

# A file has one row for all versions that contain it, so a version costs only its changes.
dataset_files = Table(
    "dataset_files",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("file", String, primary_key=True),
    Column("first", Integer, primary_key=True),
    Column("last", Integer),
    Column("size", BigInteger, nullable=False),
    Column("checksum", String, nullable=False),
)

_v, _m, _f, _r = dataset_versions.c, dataset_files.c, files.c, replicas.c
_LAST = select(func.max(_v.version)).where(_v.dataset == bindparam("name"))
_END = (
    update(dataset_files)
    .where(_m.dataset == bindparam("of"), _m.file == bindparam("gone"), _m.last.is_(None))
    .values(last=bindparam("end"))
)
_NAMING = (
    select(tasks.c.id, tasks.c.datasets)
    .where(has_state(tasks, *LIVE_TASKS), tasks.c.datasets != "")
    .order_by(tasks.c.id)
)
_NEWER = dataset_versions.alias()
_LAST_VERSION = select(func.max(_NEWER.c.version)).where(_NEWER.c.dataset == _v.dataset)
_IS_CURRENT = and_(_v.files > 0, _v.version == _LAST_VERSION.correlate(dataset_versions).scalar_subquery())
_OLDER = select(_NEWER.c.version).where(_NEWER.c.dataset == _v.dataset, _NEWER.c.version > _v.version)
_FORGET_MEMBERS = delete(dataset_files).where(_m.dataset == bindparam("gone"))
_FORGET = (
    delete(dataset_versions).where(
        _v.dataset == bindparam("gone"), _OLDER.correlate(dataset_versions).exists()
    ),
    # Keep the last number even without files, so that no later version gets it again.
    update(dataset_versions).where(_v.dataset == bindparam("gone")).values(files=0, size=0),
)
_MEMBER_COLUMNS = ("dataset", "file", "first", "last", "size", "checksum")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetVersion:
    """A version of a dataset: number and bytes of its files, time (s since 1970 UTC) and author."""

    dataset: str
    version: int
    files: int
    size: int
    created: float
    author: str


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a version of a dataset, its current record in the catalogue, and its originals' storages.

    ``paths`` has, by storage, the path of each original with another path than the file's name.
    """

    file: File
    current: File | None
    storages: tuple[str, ...]
    paths: Mapping[str, str]


class Datasets:
    """Reads datasets."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def version(self, dataset: str, version: int | None = None) -> DatasetVersion | None:
        """Return a version by the dataset's identifier, by default the current one; None if there is none."""
        query = _versions(_v.dataset == dataset, *([] if version is None else [_v.version == version]))
        versions = self._read(query.limit(1))
        return versions[0] if versions else None

    def last(self, dataset: str) -> int:
        """Return the number of a dataset's last version, also if it was deleted; 0 if there was none."""
        return self._database.read(
            lambda connection: connection.execute(_LAST, {"name": dataset}).scalar() or 0
        )

    def readers(self, dataset: str) -> list[int]:
        """Return the live tasks that name a version of a dataset."""
        return self._database.read(lambda connection: _readers(connection, dataset))

    def versions(self, dataset: str, limit: int, before: int | None = None) -> list[DatasetVersion]:
        """Return a dataset's versions, newest first, below the number ``before``."""
        earlier = [] if before is None else [_v.version < before]
        return self._read(_versions(_v.dataset == dataset, *earlier).limit(limit))

    def made_by(self, dataset: str, author: str) -> int | None:
        """Return the number of the newest version by an author; None if there is none."""
        versions = self._read(_versions(_v.dataset == dataset, _v.author == author).limit(1))
        return versions[0].version if versions else None

    def current(self, scope: str, after: str, limit: int) -> list[DatasetVersion]:
        """Return the current version of datasets in a scope with a name after ``after``, by name."""
        query = select(dataset_versions).where(begins(_v.dataset, f"{scope}:", after), _IS_CURRENT)
        return self._read(query.order_by(_v.dataset).limit(limit))

    def total(self, scope: str) -> int:
        """Return the number of datasets in a scope."""
        query = select(func.count()).where(begins(_v.dataset, f"{scope}:", ""), _IS_CURRENT)
        return self._database.read(lambda connection: int(connection.execute(query).scalar_one()))

    def files(self, dataset: str, version: int, after: str = "", limit: int | None = None) -> list[File]:
        """Return the files of a version by identifier, as they were when it was made."""
        query = select(_m.file, _m.size, _m.checksum).where(*_in(dataset, version), _m.file > after)
        rows = self._database.read(
            lambda connection: connection.execute(query.order_by(_m.file).limit(limit)).all()
        )
        return [File(name=name, size=size, checksum=checksum) for name, size, checksum in rows]

    def members(self, dataset: str, version: int) -> list[Member]:
        """Return the files of a version by identifier, each with the catalogue's current record."""
        described = select(_m.file, _m.size, _m.checksum, _f.name, _f.size, _f.checksum).outerjoin(
            files, _f.name == _m.file
        )
        lying = select(_r.file, _r.storage, _r.path).join(dataset_files, _m.file == _r.file).where(~IS_COPY)
        chosen = _in(dataset, version)

        def read(connection: Connection) -> list[Member]:
            places: dict[str, dict[str, str]] = defaultdict(dict)
            for file, storage, path in connection.execute(lying.where(*chosen).order_by(_r.storage)):
                places[file][storage] = path
            rows = connection.execute(described.where(*chosen).order_by(_m.file))
            return [_member(tuple(row), places.get(row[0], {})) for row in rows]

        return self._database.read(read)

    def _read(self, query: Any) -> list[DatasetVersion]:
        rows = self._database.read(lambda connection: connection.execute(query).mappings().all())
        return [DatasetVersion(**row) for row in rows]


def write(connection: Connection, new: NewDatasetVersion, time: float) -> bool:
    """Write a version. Return whether it was the next one."""
    if (connection.execute(_LAST, {"name": new.dataset}).scalar() or 0) != new.version - 1:
        return False
    gone = [{"of": new.dataset, "gone": file, "end": new.version - 1} for file in new.removed]
    if gone:
        connection.execute(_END, gone)
    rows = [(new.dataset, file.name, new.version, None, file.size, file.checksum) for file in new.added]
    bulk.insert(connection, dataset_files, _MEMBER_COLUMNS, rows)
    add_registrations(connection, new.author, len(rows))
    values = {"dataset": new.dataset, "version": new.version, "created": time, "author": new.author}
    connection.execute(insert(dataset_versions), {**values, "files": new.files, "size": new.size})
    return True


def forget(connection: Connection, names: Sequence[str]) -> tuple[list[str], int]:
    """Delete datasets that no live task names, with all versions. Their files stay in the catalogue.

    Return the deleted ones, and the number of their members.
    """
    forgotten, gone = [], 0
    for name in names:
        if not _readers(connection, name):
            forgotten.append(name)
            gone += connection.execute(_FORGET_MEMBERS, {"gone": name}).rowcount
            for statement in _FORGET:
                connection.execute(statement, {"gone": name})
    return forgotten, gone


def _readers(connection: Connection, dataset: str) -> list[int]:
    # Not LIKE: names may contain underscores, and SQLite's LIKE ignores case.
    return [
        task
        for task, named in connection.execute(_NAMING)
        if any(reference.rpartition("@")[0] == dataset for reference in named.split())
    ]


def _versions(*conditions: ColumnElement[bool]) -> Any:
    return select(dataset_versions).where(*conditions, _v.files > 0).order_by(_v.version.desc())


def _in(dataset: str, version: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of a file in a version."""
    return _m.dataset == dataset, _m.first <= version, or_(_m.last.is_(None), _m.last >= version)


def _member(row: tuple[Any, ...], places: Mapping[str, str]) -> Member:
    name, size, checksum, known_name, known_size, known_checksum = row
    return Member(
        file=File(name=name, size=size, checksum=checksum),
        current=File(name=name, size=known_size, checksum=known_checksum) if known_name else None,
        storages=tuple(places),
        paths={storage: path for storage, path in places.items() if path},
    )
