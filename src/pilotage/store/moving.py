"""Move a store from SQLite to PostgreSQL, with all that is under way: each row, and the next numbers.

Unlike a restore it goes back to no earlier time. So tokens, pilots and attempts stay as they are.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, create_engine, insert, make_url, select

from pilotage.store import schema
from pilotage.store.backup import BackupError, digest, refuse_used_file, refuse_while_used
from pilotage.store.database.dialects import POSTGRESQL, sqlite_file
from pilotage.store.records import with_all_indexes
from pilotage.store.restore import dropped_references, refuse_tables, set_sequences

ROWS = 5_000
"""Rows of a statement."""

MOVED = ".moved"
"""Ends the name of the file that was moved, so that no server uses it by mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedStore:
    """What a move copied, and where the former store is now."""

    tables: int
    rows: int
    former: str
    """The file that has the former store."""


def move(url: str, target: str) -> MovedStore:
    """Copy a store on SQLite to an empty database of PostgreSQL; compare both; rename the old file.

    No server may use either. Raises ``BackupError`` and OSError, with nothing changed.
    """
    path, address = sqlite_file(url), make_url(target)
    if path is None:
        raise BackupError("the store is on PostgreSQL already")
    if address.get_backend_name() != POSTGRESQL.name:
        raise BackupError("the new store is not on PostgreSQL; its URL begins with postgresql+psycopg://")
    if not path.is_file():
        raise BackupError(f"there is no store at {path}")
    refuse_used_file(path)
    refuse_while_used(target)
    source = create_engine(make_url(url))
    engine = create_engine(address.set(drivername="postgresql+psycopg"))
    try:
        with source.connect() as old, _locked(old):
            if not schema.is_current(old):
                raise BackupError(
                    "the store has an earlier version: pilotage store upgrade brings it up to date"
                )
            with engine.begin() as new:
                refuse_tables(new)
                schema.upgrade(new)
                rows = _copy(old, new)
                set_sequences(new)
            former = path.rename(path.with_name(path.name + MOVED))
    finally:
        source.dispose()
        engine.dispose()
    return MovedStore(tables=len(rows), rows=sum(rows), former=str(former))


@contextmanager
def _locked(connection: Connection) -> Iterator[None]:
    """Keep other processes away from SQLite's file, which then is a single one."""
    connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
    connection.exec_driver_sql("BEGIN EXCLUSIVE")
    yield
    connection.rollback()


def _copy(old: Connection, new: Connection) -> Sequence[int]:
    """Copy all tables, and return the number of rows of each. Raises ``BackupError`` if one differs."""
    counts = []
    with dropped_references(new):
        for table in with_all_indexes().sorted_tables:
            new.execute(table.delete())
            for rows in _parts(old, table):
                new.execute(insert(table), [row._asdict() for row in rows])
            before, after = (digest(_texts(side, table)) for side in (old, new))
            if before != after:
                raise BackupError(f"the rows of {table.name} differ after the copy; nothing was moved")
            counts.append(after[0])
    return counts


def _parts(connection: Connection, table: Table) -> Iterator[Sequence[Any]]:
    """Yield a table's rows, some at a time."""
    result = connection.execute(select(table).execution_options(yield_per=ROWS))
    yield from result.partitions()


def _texts(connection: Connection, table: Table) -> Iterator[bytes]:
    """Yield a table's rows as both databases give them."""
    for rows in _parts(connection, table):
        yield from (repr(tuple(row)).encode() for row in rows)
