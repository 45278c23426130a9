"""Backups of a whole store, made while servers run: SQLite by its backup API, PostgreSQL by pg_dump.

A backup has everything but tokens and settings of notifications. It is one file,
which its user alone may read.
"""

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, create_engine, make_url, text

from . import schema
from .database.errors import NewerStore

_SQLITE = b"SQLite format 3\0"
_POSTGRESQL = b"PGDMP"
_KINDS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_LEFT_OUT = ("tokens", "notification_settings")
"""Tables whose rows stay out of backups: access, and the secrets that sign webhooks."""

_CONNECTIONS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    # A server adds its name.
    "AND split_part(application_name, ' ', 1) = 'pilotage' AND pid <> pg_backend_pid()"
)


class BackupError(Exception):
    """A backup cannot be made or restored."""


def backup(url: str, file: Path) -> int:
    """Write a backup of the store to a new file. Return its size in bytes. Servers may go on meanwhile.

    Raises :class:`BackupError`, and OSError.
    """
    if file.exists():
        raise BackupError(f"{file} exists already: name a new file")
    address = make_url(url)
    with _draft(file) as draft:
        if address.get_backend_name() == "sqlite":
            _copy_sqlite(Path(str(address.database)), draft)
        else:
            _dump_postgresql(address, draft)
        return draft.stat().st_size


def restore(url: str, file: Path, replace: bool = False) -> None:
    """Put a backup in the place of an empty store, or of another one with ``replace``.

    No server may use the store. Afterwards the store needs :func:`pilotage.store.restored.restored`. Raises
    :class:`BackupError`, :class:`NewerStore` and OSError, with nothing changed.
    """
    address, kind = make_url(url), _kind(file)
    own = address.get_backend_name()
    if kind != own:
        raise BackupError(f"{file} is a backup of {_KINDS[kind]}, and the store is on {_KINDS[own]}")
    if own == "sqlite":
        _restore_sqlite(file, Path(str(address.database)), replace)
    else:
        _restore_postgresql(file, address, replace)


def refuse_while_used(url: str) -> None:
    """Raise :class:`BackupError` if a process has the store open. An absent one is not open."""
    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        _refuse_used_file(Path(str(address.database)))
        return
    engine = create_engine(address.set(drivername="postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            others = connection.execute(_CONNECTIONS).scalar_one()
    finally:
        engine.dispose()
    if others:
        raise BackupError(f"Pilotage has {others} connections to the database: end its servers first")


def _refuse_used_file(path: Path) -> None:
    if not path.is_file():
        return
    with closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
        try:
            # Only the last connection may leave the write-ahead log.
            connection.execute("PRAGMA journal_mode=DELETE").close()
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            raise BackupError(f"another process has {path} open: end the servers first") from error


@contextmanager
def _draft(file: Path) -> Iterator[Path]:
    """Give a private file beside ``file``, which takes its name when it is whole."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.touch(mode=0o600, exist_ok=False)
    try:
        yield draft
        _sync(draft)
        # Link instead of renaming: a file that came meanwhile stays.
        os.link(draft, file)
    except FileExistsError as error:
        raise BackupError(f"{file} exists already: name a new file") from error
    finally:
        draft.unlink(missing_ok=True)


def _opened(path: Path) -> sqlite3.Connection:
    """Open a database for reading. In a URI, some letters of a path stand for something else: ? # %."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _sync(file: Path) -> None:
    with file.open("rb") as written:
        os.fsync(written.fileno())


def _copy_sqlite(path: Path, draft: Path) -> None:
    with (
        closing(_opened(path)) as source,
        closing(sqlite3.connect(draft, isolation_level=None)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE").close()
        present = {name for (name,) in target.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in _LEFT_OUT:
            if table in present:  # a store of a former version may lack it
                target.execute(f"DELETE FROM {table}")
        # Deleted rows stay in the file's free pages until then.
        target.execute("VACUUM")


def _restore_sqlite(file: Path, path: Path, replace: bool) -> None:
    if path.is_file() and path.stat().st_size and not replace:
        raise BackupError(f"there is a store at {path}: move it away, or give --replace")
    _refuse_used_file(path)
    with closing(_opened(file)) as source:
        try:
            (fault,) = source.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = source.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.DatabaseError as error:
            raise BackupError(f"{file} is damaged: {error}") from error
    if fault != "ok":
        raise BackupError(f"{file} is damaged: {fault}")
    _refuse_newer(version)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        shutil.copyfile(file, draft)
        _sync(draft)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _dump_postgresql(address: URL, draft: Path) -> None:
    left_out = [f"--exclude-table-data={table}" for table in _LEFT_OUT]
    shape = ("--format=custom", "--no-owner", "--no-privileges", "--lock-wait-timeout=30s")
    _run("pg_dump", address, *shape, f"--schema={_schema(address)[0]}", *left_out, f"--file={draft}")


def _restore_postgresql(file: Path, address: URL, replace: bool) -> None:
    _, is_empty = _schema(address)
    if not is_empty and not replace:
        raise BackupError("the database has tables already: empty it, or give --replace")
    refuse_while_used(address.render_as_string(hide_password=False))
    found = _run(
        "pg_restore", None, "--data-only", "--table=alembic_version", "--file=-", str(file.absolute())
    )
    version = re.search(r"^COPY .*\n(\w+)$", found, re.MULTILINE)
    if version is None:
        raise BackupError(f"{file} is no backup of a store: it has no version")
    _refuse_newer(version[1])
    shape = ("--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error")
    clean = () if is_empty else ("--clean", "--if-exists")
    _run("pg_restore", address, *shape, *clean, str(file.absolute()))


def _schema(address: URL) -> tuple[str, bool]:
    """Return the database's schema for this store, and whether it has no tables."""
    engine = create_engine(address.set(drivername="postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            name = connection.execute(text("SELECT current_schema()")).scalar_one()
            tables = text("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()")
            return str(name), not connection.execute(tables).scalar_one()
    finally:
        engine.dispose()


def _run(program: str, address: URL | None, *arguments: str) -> str:
    """Run one of PostgreSQL's programs, and return its output. Raises :class:`BackupError`."""
    if shutil.which(program) is None:
        raise BackupError(f"{program} is not installed: install PostgreSQL's client programs")
    environment, connection = dict(os.environ), list[str]()
    if address is not None:
        # Not as an argument, which every process of the machine may read.
        if address.password is not None:
            environment["PGPASSWORD"] = str(address.password)
        plain = address._replace(drivername="postgresql", password=None)
        connection = [f"--dbname={plain.render_as_string(hide_password=False)}"]
    command = [program, *connection, *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BackupError(f"{program}: {lines[0]}")
    return done.stdout


def _kind(file: Path) -> str:
    with file.open("rb") as opened:
        begin = opened.read(len(_SQLITE))
    if begin == _SQLITE:
        return "sqlite"
    if begin.startswith(_POSTGRESQL):
        return "postgresql"
    raise BackupError(f"{file} is no backup: `pilotage store backup` makes one")


def _refuse_newer(version: str) -> None:
    if version > schema.newest():
        raise NewerStore(f"the backup is of version {version}, this program knows up to {schema.newest()}")
