"""Restores: this program makes the tables, and copies only the rows of a backup into them.

Triggers, views, functions and rules of the file do not reach the store. The new store is complete, and of the
newest version, before it replaces another one.
"""

import re
import sqlite3
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError

from pilotage.store import schema
from pilotage.store.backup import (
    LEFT_OUT,
    BackupError,
    opened,
    reason,
    refuse_used_file,
    refuse_while_used,
    refuse_without,
    sync,
)
from pilotage.store.database.dialects import DIALECTS, POSTGRESQL, SQLITE, Dialect, sqlite_file
from pilotage.store.database.errors import NewerStore
from pilotage.store.records import with_all_indexes

if TYPE_CHECKING:
    import psycopg

_SQLITE = b"SQLite format 3\0"
_POSTGRESQL = b"PGDMP"

_VERSION_TABLE = "alembic_version"
"""The table that schema.make fills."""

_VERSION = re.compile(rb"^COPY .*\n(\w+)$", re.MULTILINE)
COPY = re.compile(rb'^COPY (?:.+\.)?"?(\w+)"? \((.+)\) FROM stdin;$')
"""A line before the rows of a table: the table, and its columns."""
END = b"\\.\n"
"""The line after them."""

_TABLES = text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
_REFERENCES = text(
    "SELECT conrelid::regclass::text AS of_table, quote_ident(conname) AS name, "
    "pg_get_constraintdef(oid) AS definition FROM pg_constraint "
    "WHERE contype = 'f' AND connamespace = current_schema()::regnamespace"
)
_SEQUENCES = text(
    "SELECT quote_ident(table_name), quote_ident(column_name) FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND column_default LIKE 'nextval(%'"
)


def restore(url: str, file: Path, replace: bool = False) -> None:
    """Put a backup in the place of an empty store, or of another one with ``replace``.

    No server may use the store. Afterwards the store needs ``restored``. Raises
    ``BackupError``, ``NewerStore``, ``UnreleasedStore`` and OSError, with nothing changed.
    """
    refuse_other_kind(url, file)
    if path := sqlite_file(url):
        _restore_sqlite(file, path, replace)
    else:
        _restore_postgresql(file, make_url(url), replace)


def refuse_other_kind(url: str, file: Path) -> None:
    """Raise ``BackupError`` if a file is no backup, or one of another database than a store's."""
    kind, dialect = _kind(file), DIALECTS[make_url(url).get_backend_name()]
    if kind is not dialect:
        raise BackupError(f"{file} is a backup of {kind.title}, and the store is on {dialect.title}")


def _kind(file: Path) -> Dialect:
    with file.open("rb") as backup:
        begin = backup.read(len(_SQLITE))
    if begin == _SQLITE:
        return SQLITE
    if begin.startswith(_POSTGRESQL):
        return POSTGRESQL
    raise BackupError(f"{file} is no backup: `pilotage store backup` makes one")


def _refuse_newer(version: str) -> None:
    if version > schema.newest():
        raise NewerStore(f"the backup has version {version}, this program knows up to {schema.newest()}")


def _refuse_incomplete(file: Path, lacking: Collection[str]) -> None:
    if lacking:
        raise BackupError(f"{file} is incomplete: it lacks {', '.join(sorted(lacking))}")


def _restore_sqlite(file: Path, path: Path, replace: bool) -> None:
    if path.is_file() and path.stat().st_size and not replace:
        raise BackupError(f"there is a store at {path}: move it away, or give --replace")
    refuse_used_file(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Other users can read neither the directory nor its files.
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as directory:
        draft = Path(directory, path.name)
        draft.touch(mode=0o600)
        try:
            fill_sqlite(file, draft)
        except sqlite3.DatabaseError as error:
            raise BackupError(f"{file} is damaged: {error}") from error
        sync(draft)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        draft.replace(path)


def fill_sqlite(file: Path, draft: Path) -> None:
    """Make the tables of a backup's version in an empty file, copy its rows, and bring them up to date."""
    with closing(opened(file)) as backup:
        # No view, index or default of the file may call a function.
        backup.execute("PRAGMA trusted_schema=OFF").close()
        (fault,) = backup.execute("PRAGMA quick_check(1)").fetchone()
        if fault != "ok":
            raise BackupError(f"{file} is damaged: {fault}")
        present = sqlite_columns(backup)
        if _VERSION_TABLE not in present:
            raise BackupError(f"{file} is no backup of a store: it has no version")
        version = backup.execute(f"SELECT version_num FROM {_VERSION_TABLE}").fetchone()
    if version is None:
        raise BackupError(f"{file} is no backup of a store: it has no version")
    _refuse_newer(str(version[0]))
    engine = create_engine(URL.create(SQLITE.name, database=str(draft)))
    try:
        with engine.begin() as connection:
            schema.make(connection, str(version[0]))
        with closing(sqlite3.connect(draft, uri=True, isolation_level=None)) as connection:
            _copy_rows(connection, file, present)
        with engine.begin() as connection:
            schema.upgrade(connection)
    finally:
        engine.dispose()


def _copy_rows(target: sqlite3.Connection, file: Path, present: Mapping[str, set[str]]) -> None:
    tables = {
        table: columns
        for table, columns in sqlite_columns(target).items()
        if table not in (*LEFT_OUT, _VERSION_TABLE)
    }
    _refuse_incomplete(file, _lacking(tables, present))
    target.execute("PRAGMA trusted_schema=OFF").close()
    target.execute("ATTACH ? AS backup", (f"{file.absolute().as_uri()}?mode=ro",)).close()
    target.execute("BEGIN").close()
    for table, columns in tables.items():
        names = ", ".join(f'"{column}"' for column in columns)
        target.execute(f'DELETE FROM main."{table}"').close()
        target.execute(f'INSERT INTO main."{table}" ({names}) SELECT {names} FROM backup."{table}"').close()
    if broken := target.execute("PRAGMA main.foreign_key_check").fetchone():
        raise BackupError(f"{file} is damaged: a row of {broken[0]} names a record that is not there")
    target.execute("COMMIT").close()


def sqlite_columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the columns of each plain table. Virtual tables and generated columns are left out."""
    plain = (
        "SELECT name FROM main.sqlite_master WHERE type = 'table' AND rootpage > 0 "
        "AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    )
    return {
        table: {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        for (table,) in connection.execute(plain).fetchall()
    }


def _lacking(tables: Mapping[str, set[str]], present: Mapping[str, set[str]]) -> list[str]:
    """Return the tables and columns that are not there."""
    return [
        table if table not in present else f"{table}.{', '.join(sorted(columns - present[table]))}"
        for table, columns in tables.items()
        if not columns <= present.get(table, set())
    ]


def _restore_postgresql(file: Path, address: URL, replace: bool) -> None:
    url = address.set(drivername="postgresql+psycopg")
    refuse_while_used(url.render_as_string(hide_password=False))
    version = postgresql_version(file)
    engine = create_engine(url)
    try:
        # Use one transaction, so that the previous store stays if this fails.
        with engine.begin() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '30s'"))
            _drop_tables(connection, replace)
            fill_postgresql(connection, file, version)
            schema.upgrade(connection)
    finally:
        engine.dispose()


def postgresql_version(file: Path) -> str:
    """Return the version of a backup's tables. Raises ``BackupError`` and NewerStore."""
    with backup_rows(file, f"--table={_VERSION_TABLE}") as lines:
        version = _VERSION.search(lines.read())
    if version is None:
        raise BackupError(f"{file} is no backup of a store: it has no version")
    _refuse_newer(version[1].decode())
    return version[1].decode()


def refuse_tables(connection: Connection, remedy: str = "empty it") -> None:
    """Raise ``BackupError`` if a database has tables."""
    if connection.execute(_TABLES).first():
        raise BackupError(f"the database has tables already: {remedy}")


def _drop_tables(connection: Connection, replace: bool) -> None:
    if not replace:
        refuse_tables(connection, "empty it, or give --replace")
    present = set(connection.execute(_TABLES).scalars())
    if existing := present & {*with_all_indexes().tables, _VERSION_TABLE}:
        names = ", ".join(f'"{table}"' for table in sorted(existing))
        connection.execute(text(f"DROP TABLE {names}"))


def fill_postgresql(connection: Connection, file: Path, version: str) -> None:
    """Make the tables of a backup's version, and copy its rows in its order."""
    import psycopg

    connection.execute(text("SET LOCAL client_encoding = 'UTF8'"))
    schema.make(connection, version)
    driver: Any = connection.connection.driver_connection
    try:
        with dropped_references(connection), driver.cursor() as cursor:
            _copy_tables(cursor, file, _postgresql_columns(connection))
    except (psycopg.Error, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise BackupError(f"{file} is damaged: {str(cause).splitlines()[0]}") from error
    set_sequences(connection)


@contextmanager
def dropped_references(connection: Connection) -> Iterator[None]:
    """Drop the references between tables of PostgreSQL while rows are copied in any order."""
    references = connection.execute(_REFERENCES).all()
    for reference in references:
        connection.execute(text(f"ALTER TABLE {reference.of_table} DROP CONSTRAINT {reference.name}"))
    yield
    for reference in references:
        connection.execute(
            text(f"ALTER TABLE {reference.of_table} ADD CONSTRAINT {reference.name} {reference.definition}")
        )


def set_sequences(connection: Connection) -> None:
    """Let PostgreSQL's sequences continue after the rows that were copied."""
    for table, column in connection.execute(_SEQUENCES).all():
        last = f"coalesce(max({column}), 1), max({column}) IS NOT NULL"
        connection.execute(
            text(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {last}) FROM {table}")
        )


def _postgresql_columns(connection: Connection) -> dict[str, set[str]]:
    every = inspect(connection).get_multi_columns()
    return {
        table: {column["name"] for column in columns}
        for (_, table), columns in every.items()
        if table not in (*LEFT_OUT, _VERSION_TABLE)
    }


def _copy_tables(cursor: "psycopg.Cursor[Any]", file: Path, tables: Mapping[str, set[str]]) -> None:
    """Copy the rows of these tables alone. Use only the names in the file's statements; run none of them."""
    present: dict[str, set[str]] = {}
    with backup_rows(file) as lines:
        for line in lines:
            if (header := COPY.match(line)) is None:
                continue
            table, names = header[1].decode(), [name.strip('"') for name in header[2].decode().split(", ")]
            if table not in tables:
                # Another program's table in the same schema.
                for _ in takewhile(END.__ne__, lines):
                    pass
                continue
            present[table] = set(names) & tables[table]
            if present[table] != {*names}:
                raise BackupError(f"{file} is damaged: table {table} has columns that this version lacks")
            columns = ", ".join(f'"{name}"' for name in names)
            with cursor.copy(f'COPY "{table}" ({columns}) FROM STDIN') as copy:
                for row in takewhile(END.__ne__, lines):
                    copy.write(row)
    _refuse_incomplete(file, _lacking(tables, present))


@contextmanager
def backup_rows(file: Path, *options: str) -> Iterator[IO[bytes]]:
    """Give what pg_restore writes of a backup's rows. Raises ``BackupError`` if it fails."""
    refuse_without("pg_restore")
    command = ["pg_restore", "--data-only", "--file=-", *options, str(file.absolute())]
    with (
        TemporaryFile() as faults,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=faults) as running,
    ):
        try:
            assert running.stdout is not None
            yield running.stdout
        except BaseException:
            running.kill()
            raise
        if exit_code := running.wait():
            faults.seek(0)
            output = faults.read(10_000).decode(errors="replace")
            raise BackupError(f"pg_restore: {reason(output, exit_code)}")
