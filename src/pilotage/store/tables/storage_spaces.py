"""The last reports of storages on their free space: table, writing, reading (B18)."""

from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import Column, Connection, Double, String, Table, select

from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.store.database.columns import metadata, text_column
from pilotage.store.database.sets import raw_rows
from pilotage.store.database.upserts import replaced, upsert

storage_spaces = Table(
    "storage_spaces",
    metadata,
    Column("storage", String, primary_key=True),
    Column("url", String, nullable=False),
    Column("asked", Double, nullable=False),
    Column("told", Double),
    Column("free", Double),
    Column("total", Double),
    text_column("problem"),
)

_COLUMNS = tuple(field.name for field in fields(StorageSpace))
# If two servers asked at once, the later report counts.
_SAVE = upsert(
    storage_spaces,
    ["storage"],
    _COLUMNS,
    replaced(_COLUMNS[1:]),
    "excluded.asked >= storage_spaces.asked",
)
_ALL = select(*(storage_spaces.c[name] for name in _COLUMNS)).order_by(storage_spaces.c.storage)


def write(connection: Connection, found: Sequence[StorageSpace]) -> None:
    """Write reports in place of earlier ones."""
    connection.execute(_SAVE, [{name: getattr(one, name) for name in _COLUMNS} for one in found])


def everything(connection: Connection) -> tuple[StorageSpace, ...]:
    """Return the last reports, by storage."""
    return tuple(StorageSpace(**dict(zip(_COLUMNS, row, strict=True))) for row in raw_rows(connection, _ALL))
