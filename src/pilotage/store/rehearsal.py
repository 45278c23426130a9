"""Rehearse a restore: put a backup into a scratch place, compare each row, and leave nothing behind."""

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, create_engine, make_url, text
from sqlalchemy.exc import ProgrammingError

from pilotage.store import schema
from pilotage.store.backup import LEFT_OUT, BackupError, digest, opened
from pilotage.store.database.dialects import sqlite_file
from pilotage.store.restore import (
    COPY,
    END,
    backup_rows,
    fill_postgresql,
    fill_sqlite,
    postgresql_version,
    refuse_other_kind,
    sqlite_columns,
)

if TYPE_CHECKING:
    import psycopg

SCRATCH = "pilotage_rehearsal"
"""Begins the name of the schema that a rehearsal on PostgreSQL fills, and never commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a rehearsal restored, all of it alike."""

    tables: int
    rows: int


Digests = Mapping[str, tuple[int, int]]
"""The number of rows of each table, and a number that the same rows in any order have in common."""


def rehearse(url: str, file: Path) -> Rehearsal:
    """Restore a backup into a scratch place beside the store, and compare the rows. Servers may run.

    It needs as much space as the store for that time. Raises ``BackupError``, ``NewerStore``,
    ``UnreleasedStore`` and OSError.
    """
    refuse_other_kind(url, file)
    path = sqlite_file(url)
    before, after = _in_sqlite(file, path) if path else _in_postgresql(file, make_url(url))
    if different := sorted(table for table in before if before[table] != after.get(table)):
        raise BackupError(f"{file} cannot be restored as it was: the rows of {', '.join(different)} differ")
    return Rehearsal(tables=len(before), rows=sum(count for count, _ in before.values()))


def _in_sqlite(file: Path, store: Path) -> tuple[Digests, Digests]:
    """Return the digests of a backup, and of the store that it makes."""
    with TemporaryDirectory(dir=store.parent, prefix=f".{store.name}.") as directory:
        scratch = Path(directory, store.name)
        scratch.touch(mode=0o600)
        try:
            fill_sqlite(file, scratch)
            with closing(opened(file)) as backup, closing(opened(scratch)) as restored:
                tables = {
                    table: columns
                    for table, columns in sqlite_columns(backup).items()
                    if table not in LEFT_OUT
                }
                return _of_sqlite(backup, tables), _of_sqlite(restored, tables)
        except sqlite3.DatabaseError as error:
            raise BackupError(f"{file} is damaged: {error}") from error


def _of_sqlite(connection: sqlite3.Connection, tables: Mapping[str, Iterable[str]]) -> Digests:
    digests = {}
    for table, columns in tables.items():
        names = ", ".join(f'"{column}"' for column in sorted(columns))
        rows = connection.execute(f'SELECT {names} FROM "{table}"')
        digests[table] = digest(repr(row).encode() for row in rows)
    return digests


def _in_postgresql(file: Path, address: URL) -> tuple[Digests, Digests]:
    """Do the same in a schema that is not committed."""
    version = postgresql_version(file)
    engine = create_engine(address.set(drivername="postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            _begin_scratch(connection)
            fill_postgresql(connection, file, version)
            driver: Any = connection.connection.driver_connection
            with backup_rows(file) as lines:
                headers = (header for line in lines if (header := COPY.match(line)))
                copied = {header.groups(): digest(takewhile(END.__ne__, lines)) for header in headers}
            before = {table.decode(): digest for (table, _), digest in copied.items()}
            with driver.cursor() as cursor:
                after = {table.decode(): _of_postgresql(cursor, table, columns) for table, columns in copied}
            schema.upgrade(connection)
            connection.rollback()
    finally:
        engine.dispose()
    return before, after


def _begin_scratch(connection: Connection) -> None:
    name = f"{SCRATCH}_{os.getpid()}"
    try:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    except ProgrammingError as error:
        reason = str(error.orig).splitlines()[0]
        raise BackupError(f"{reason}: a rehearsal needs GRANT CREATE ON DATABASE") from error
    connection.execute(text(f"SET LOCAL search_path = {name}"))


def _of_postgresql(cursor: "psycopg.Cursor[Any]", table: bytes, columns: bytes) -> tuple[int, int]:
    with cursor.copy(f'COPY "{table.decode()}" ({columns.decode()}) TO STDOUT') as rows:
        return digest(bytes(row) for row in rows)
