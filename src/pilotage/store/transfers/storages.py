"""Storages: their reports of free space (B18), removals there, and moves to another storage."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from sqlalchemy import (
    Connection,
    Index,
    PrimaryKeyConstraint,
    Table,
    bindparam,
    delete,
    func,
    select,
    update,
)

from pilotage.model.records.states import LIVE_JOBS, UNFINISHED_TRANSFERS, TransferState
from pilotage.model.records.storage_moves import FileAtStorage
from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.store.database import bulk
from pilotage.store.database.columns import is_state, metadata
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.engine import Database
from pilotage.store.database.record_columns import maker, record_columns
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files.table import files, replicas
from pilotage.store.jobs.table import job_inputs, jobs
from pilotage.store.transfers.table import transfers

storage_spaces = Table(
    "storage_spaces", metadata, *record_columns(StorageSpace), PrimaryKeyConstraint("storage")
)

_SPACE = storage_spaces.c.keys()
_storage_space = maker(StorageSpace)
# If two servers asked the storage, the later report counts.
_SAVE_SPACE = upsert(
    storage_spaces,
    ["storage"],
    _SPACE,
    replaced(_SPACE[1:]),
    "excluded.asked >= storage_spaces.asked",
)
_SPACES = select(storage_spaces).order_by(storage_spaces.c.storage)


def write_spaces(connection: Connection, spaces: Sequence[StorageSpace]) -> None:
    """Write reports in place of earlier ones."""
    connection.execute(_SAVE_SPACE, [{name: getattr(space, name) for name in _SPACE} for space in spaces])


def read_spaces(connection: Connection) -> tuple[StorageSpace, ...]:
    """Return the last reports, by storage."""
    return tuple(map(_storage_space, raw_rows(connection, _SPACES)))


AT_ONCE = 1000
"""Most removals that one pass begins."""

AGAIN = 60.0
"""Seconds until a removal is tried again. An older one waits as long again as it has waited."""

KEPT_FOR = 7 * 86400.0
"""Seconds after which a removal is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A folder or copy to remove from ``due`` on, requested at ``since``. Times are in s since 1970 UTC.

    A server removes it once more at ``last`` if that is later, because data under way may arrive after the
    first removal. A copy has the name of its ``file``: there may be a new copy of it in the same place.
    """

    storage: str
    path: str
    file: str = ""
    since: float
    due: float
    last: float


removals = Table(
    "removals",
    metadata,
    *record_columns(Removal),
    PrimaryKeyConstraint("storage", "path"),
    Index("removals_due", "due"),
)
_removal = maker(Removal)
_d = removals.c
_ONE = (_d.storage == bindparam("of"), _d.path == bindparam("at"))
_DUE = (
    select(removals)
    .where(_d.due <= bindparam("now"), ~among(_d.storage, "unable"))
    .order_by(_d.due)
    .limit(AT_ONCE)
)
_PUT_OFF = update(removals).where(*_ONE).values(due=bindparam("next"))
_DELETE = delete(removals).where(*_ONE)
_DONE = _DELETE.where(_d.last <= bindparam("now"))
_ONCE_MORE = update(removals).where(*_ONE).values(due=_d.last)


class Removals:
    """Stores removals until they are done."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Sequence[Removal]) -> None:
        """Store removals."""
        rows = [astuple(removal) for removal in new]
        if rows:
            self._database.write(
                lambda connection: bulk.insert(connection, removals, removals.c.keys(), rows, once=True),
                alone=False,
                is_audited=False,
            )

    def take_due(self, now: float, unable: Collection[str] = ()) -> list[Removal]:
        """Return the removals that are due. They are due again later, until ``done`` deletes them.

        Skip ``unable`` storages: another server does that.
        """
        values = {"now": now, "unable": sorted(unable)}
        if not self._database.read(lambda connection: connection.execute(_DUE, values).first()):
            return []
        return self._database.write(lambda connection: _take_due(connection, values, now), alone=False)

    def done(self, removal: Removal, now: float) -> None:
        """Delete a removal after it was done at ``now``, or set the time of its repetition."""
        place = {"of": removal.storage, "at": removal.path}

        def write(connection: Connection) -> None:
            if not connection.execute(_DONE, place | {"now": now}).rowcount:
                connection.execute(_ONCE_MORE, place)

        self._database.write(write, alone=False, is_audited=False)


def _take_due(connection: Connection, values: Mapping[str, Any], now: float) -> list[Removal]:
    batch = [*map(_removal, connection.execute(_DUE, values))]
    old = [{"of": removal.storage, "at": removal.path} for removal in batch if now - removal.since > KEPT_FOR]
    if old:
        connection.execute(_DELETE, old)
    later = [
        {"of": removal.storage, "at": removal.path, "next": now + max(AGAIN, now - removal.since)}
        for removal in batch
        if now - removal.since <= KEPT_FOR
    ]
    if later:
        connection.execute(_PUT_OFF, later)
    return batch


_f, _r, _x, _j, _i = files.c, replicas.c, transfers.c, jobs.c, job_inputs.c
_PAGE = (
    select(_r.file, _r.path, _f.size, _f.checksum, _f.job)
    .join(files, _f.name == _r.file)
    .where(_r.storage == bindparam("old"), _r.file > bindparam("after"))
    .order_by(_r.file)
    .limit(bindparam("most"))
)
_SUM = (
    select(func.count(), func.coalesce(func.sum(_f.size), 0))
    .select_from(replicas)
    .join(files, _f.name == _r.file)
    .where(_r.storage == bindparam("old"))
)
_OTHERS = select(_r.file, _r.storage).where(among(_r.file, "names"), _r.storage != bindparam("old"))
_READ = (
    select(_i.file)
    .distinct()
    .join(jobs, _j.id == _i.job)
    .where(among(_i.file, "names"), is_state(jobs, *LIVE_JOBS))
)
_MAKERS = select(_j.id).where(among(_j.id, "ids"), is_state(jobs, *LIVE_JOBS))
_TO_NEW = select(_x.file, _x.error).where(among(_x.file, "names"), _x.destination == bindparam("new"))
_MOVING = _TO_NEW.where(is_state(transfers, *UNFINISHED_TRANSFERS))
_FAILED = _TO_NEW.where(is_state(transfers, TransferState.FAILED)).order_by(_x.id)


class StorageMoves:
    """Reads the files that a storage has, for moving them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def total(self, storage: str) -> tuple[int, int]:
        """Return the number of the catalogue's files at a storage, and their bytes."""

        def read(connection: Connection) -> tuple[int, int]:
            count, size = connection.execute(_SUM, {"old": storage}).one()
            return int(count), int(size)

        return self._database.read(read)

    def page(self, old: str, new: str, after: str, limit: int) -> list[FileAtStorage]:
        """Return the next files at a storage after the identifier ``after``, by identifier."""
        return self._database.read(lambda connection: _page(connection, old, new, after, limit))


def _page(connection: Connection, old: str, new: str, after: str, limit: int) -> list[FileAtStorage]:
    rows = connection.execute(_PAGE, {"old": old, "after": after, "most": limit}).all()
    names = {"names": [row.file for row in rows]}
    elsewhere: defaultdict[str, list[str]] = defaultdict(list)
    for file, storage in connection.execute(_OTHERS, {**names, "old": old}):
        elsewhere[file].append(storage)
    read = set(connection.execute(_READ, names).scalars())
    makers = {"ids": sorted({row.job for row in rows if row.job is not None})}
    making = set(connection.execute(_MAKERS, makers).scalars())
    to_new = {**names, "new": new}
    moving = set(connection.execute(_MOVING, to_new).scalars())
    errors = {file: error or "it failed" for file, error in connection.execute(_FAILED, to_new)}
    return [
        FileAtStorage(
            file=row.file,
            path=row.path,
            size=row.size,
            checksum=row.checksum,
            other_storages=tuple(sorted(elsewhere[row.file])),
            is_read=row.file in read,
            is_being_made=row.job in making,
            is_moving=row.file in moving,
            error=errors.get(row.file, ""),
        )
        for row in rows
    ]
