"""The files at a storage, page by page, and how far they are on their way to another one."""

from collections import defaultdict

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.records.states import LIVE_JOBS, UNFINISHED_TRANSFERS, TransferState
from pilotage.model.records.storage_moves import FileAtStorage
from pilotage.store.database.columns import is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among
from pilotage.store.tables.files import files, replicas
from pilotage.store.tables.jobs import job_inputs, jobs
from pilotage.store.tables.transfers import transfers

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
        """Return the number of files that the catalogue knows at a storage, and their bytes."""

        def read(connection: Connection) -> tuple[int, int]:
            count, size = connection.execute(_SUM, {"old": storage}).one()
            return int(count), int(size)

        return self._database.read(read)

    def page(self, old: str, new: str, after: str, most: int) -> list[FileAtStorage]:
        """Return the next files at a storage, by identifier, after one."""
        return self._database.read(lambda connection: _page(connection, old, new, after, most))


def _page(connection: Connection, old: str, new: str, after: str, most: int) -> list[FileAtStorage]:
    rows = connection.execute(_PAGE, {"old": old, "after": after, "most": most}).all()
    names = {"names": [row.file for row in rows]}
    others: defaultdict[str, list[str]] = defaultdict(list)
    for file, storage in connection.execute(_OTHERS, {**names, "old": old}):
        others[file].append(storage)
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
            other_storages=tuple(sorted(others[row.file])),
            is_read=row.file in read,
            is_being_made=row.job in making,
            is_moving=row.file in moving,
            error=errors.get(row.file, ""),
        )
        for row in rows
    ]
