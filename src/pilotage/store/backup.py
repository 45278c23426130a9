"""Backups of a whole store, made while servers run: SQLite by its backup API, PostgreSQL by pg_dump.

A backup has everything but tokens and settings of notifications. It is one file,
which its user alone may read.
"""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path

from sqlalchemy import URL, create_engine, make_url, text

from pilotage.store.database.dialects import sqlite_file

LEFT_OUT = ("tokens", "notification_settings")
"""Tables that backups leave out: access, and the secrets that sign webhooks."""

_CONNECTIONS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    # A server adds its name.
    "AND split_part(application_name, ' ', 1) = 'pilotage' AND pid <> pg_backend_pid()"
)


class BackupError(Exception):
    """A backup cannot be made or restored."""


def backup(url: str, file: Path) -> int:
    """Write a backup of the store to a new file. Return its size in bytes. Servers may run.

    Raises ``BackupError``, and OSError.
    """
    if file.exists():
        raise BackupError(f"{file} exists already: name a new file")
    with _draft(file) as draft:
        if path := sqlite_file(url):
            _copy_sqlite(path, draft)
        else:
            _dump_postgresql(make_url(url), draft)
        return draft.stat().st_size


def refuse_while_used(url: str) -> None:
    """Raise ``BackupError`` if a process has the store open. An absent one is not open."""
    if path := sqlite_file(url):
        refuse_used_file(path)
        return
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            connections = connection.execute(_CONNECTIONS).scalar_one()
    finally:
        engine.dispose()
    if connections:
        raise BackupError(f"Pilotage has {connections} connections to the database: end its servers first")


def refuse_used_file(path: Path) -> None:
    """Raise ``BackupError`` if a process has SQLite's file open. An absent one is not open."""
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
    """Give a private file beside ``file``. Link it as ``file`` once it is complete."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.touch(mode=0o600, exist_ok=False)
    try:
        yield draft
        sync(draft)
        # Link instead of renaming, so that a file that another process just made stays.
        os.link(draft, file)
    except FileExistsError as error:
        raise BackupError(f"{file} exists already: name a new file") from error
    finally:
        draft.unlink(missing_ok=True)


def opened(path: Path) -> sqlite3.Connection:
    """Open a database for reading. Quote its path, because ? # % have a meaning in a URI."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def digest(rows: Iterable[bytes]) -> tuple[int, int]:
    """Return the number of rows, and a number that the same rows in any order have in common."""
    count = total = 0
    for row in rows:
        count += 1
        total += int.from_bytes(blake2b(row, digest_size=8).digest())
    return count, total


def sync(file: Path) -> None:
    """Wait until a file is on the disk."""
    with file.open("rb") as written:
        os.fsync(written.fileno())


def _copy_sqlite(path: Path, draft: Path) -> None:
    with (
        closing(opened(path)) as source,
        closing(sqlite3.connect(draft, isolation_level=None)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE").close()
        present = {name for (name,) in target.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in LEFT_OUT:
            if table in present:  # a store of a former version may lack it
                target.execute(f"DELETE FROM {table}")
        # Deleted rows stay in the file's free pages until then.
        target.execute("VACUUM")


def _dump_postgresql(address: URL, draft: Path) -> None:
    engine = create_engine(address.set(drivername="postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            name = connection.execute(text("SELECT current_schema()")).scalar_one()
    finally:
        engine.dispose()
    left_out = [f"--exclude-table-data={table}" for table in LEFT_OUT]
    shape = ("--format=custom", "--encoding=UTF8", "--no-owner", "--no-privileges", "--lock-wait-timeout=30s")
    _run("pg_dump", address, *shape, f'--schema="{name}"', *left_out, f"--file={draft}")


def _run(program: str, address: URL, *arguments: str) -> None:
    """Run one of PostgreSQL's programs. Raises ``BackupError``."""
    refuse_without(program)
    environment = dict(os.environ)
    # Not as an argument, which every process of the machine may read.
    if address.password is not None:
        environment["PGPASSWORD"] = str(address.password)
    plain = address._replace(drivername="postgresql", password=None)
    command = [program, f"--dbname={plain.render_as_string(hide_password=False)}", *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise BackupError(f"{program}: {reason(done.stderr, done.returncode)}")


def refuse_without(program: str) -> None:
    """Raise ``BackupError`` if one of PostgreSQL's programs is not there."""
    if shutil.which(program) is None:
        raise BackupError(f"{program} is not installed: install PostgreSQL's client programs")


def reason(output: str, exit_code: int) -> str:
    """Return why a program failed: its first line."""
    return next(iter(output.strip().splitlines()), f"exit code {exit_code}")
