"""The last reports of storages on their free space: table, writing, reading (B18)."""

from collections.abc import Sequence

from sqlalchemy import Connection, PrimaryKeyConstraint, Table, select

from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.store.database.columns import metadata
from pilotage.store.database.record_columns import maker, record_columns
from pilotage.store.database.rows import raw_rows
from pilotage.store.database.upserts import replaced, upsert

storage_spaces = Table(
    "storage_spaces", metadata, *record_columns(StorageSpace), PrimaryKeyConstraint("storage")
)

_COLUMNS = storage_spaces.c.keys()
_storage_space = maker(StorageSpace)
# If two servers asked at once, the later report counts.
_SAVE = upsert(
    storage_spaces,
    ["storage"],
    _COLUMNS,
    replaced(_COLUMNS[1:]),
    "excluded.asked >= storage_spaces.asked",
)
_ALL = select(storage_spaces).order_by(storage_spaces.c.storage)


def write(connection: Connection, found: Sequence[StorageSpace]) -> None:
    """Write reports in place of earlier ones."""
    connection.execute(_SAVE, [{name: getattr(one, name) for name in _COLUMNS} for one in found])


def everything(connection: Connection) -> tuple[StorageSpace, ...]:
    """Return the last reports, by storage."""
    return tuple(map(_storage_space, raw_rows(connection, _ALL)))
