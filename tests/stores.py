"""Stores to test on: a new SQLite file, and a new database of a real PostgreSQL server.

Each worker of pytest-xdist has its own session, templates of SQLite and temporary directory. The PostgreSQL
server is shared by all. Also here: what every store, house and command of a test would otherwise do anew.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoints
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from sqlalchemy import URL, Connection, Engine, create_engine, make_url, text
from sqlalchemy.util import LRUCache

from pilotage.policies.brokerage import plugin as brokerage_plugin
from pilotage.store import Store
from pilotage.store.database import engine as store_engine
from tests import postgresql, sqlite

_numbers = count(1)

# The tree of commands is the same for every call, and takes 50 ms to build.
typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]


class _Statements(LRUCache[Any, Any]):
    """Statements that were compiled, found again by the kind of database instead of the engine.

    Every test has an engine of its own: compiling anew for each took a sixth of the time of all tests.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get((key[0].name, *key[1:]), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((key[0].name, *key[1:]), value)


_statements = _Statements(4000)


def _engine_with_statements(*arguments: Any, **options: Any) -> Engine:
    engine = create_engine(*arguments, **options)
    engine._compiled_cache = _statements
    return engine


store_engine.create_engine = _engine_with_statements  # type: ignore[attr-defined]

_entry_points = brokerage_plugin.entry_points  # type: ignore[attr-defined]


@cache
def _installed(group: str, _path: tuple[str, ...]) -> EntryPoints:
    found: EntryPoints = _entry_points(group=group)
    return found


def _entry_points_of_path(*, group: str) -> EntryPoints:
    """What is installed changes with the path alone, and to look takes every house 10 ms."""
    return _installed(group, tuple(sys.path))


brokerage_plugin.entry_points = _entry_points_of_path  # type: ignore[attr-defined, assignment]


def _memory() -> str | None:
    """A directory in memory, where there is room for databases; None: there is none.

    A new PostgreSQL database is a thousand small files: on a disk they take ten times as long.
    """
    memory = Path("/dev/shm")
    fits = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 2**30
    return str(memory) if fits else None


@pytest.fixture(scope="session")
def postgresql_server(testrun_uid: str) -> Iterator[URL]:
    """The one server of a run of tests, reached by a socket.

    The worker that asks first starts it, and the last one to end removes it: the package counts them.
    """
    directory = Path(_memory() or tempfile.gettempdir()) / f"pilotage-postgresql-{testrun_uid}"
    with postgresql.alone():
        server = postgresql.get_server(directory, cleanup_mode="delete", start=False)
        new = not (directory / "PG_VERSION").exists()
        server.ensure_pgdata_inited()
        if new:
            with (directory / "postgresql.conf").open("a") as configuration:
                # What it forgets in a crash does not matter here; a run has many workers.
                configuration.write("fsync = off\nmax_connections = 400\n")
        server.start()
    try:
        yield make_url(server.get_uri()).set(drivername="postgresql+psycopg")
    finally:
        with postgresql.alone():
            server.cleanup()


@pytest.fixture(scope="session")
def postgresql_administration(postgresql_server: URL) -> Iterator[Connection]:
    """A connection that makes and drops databases: a new one for each took as long as the database."""
    engine = create_engine(postgresql_server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: URL, postgresql_administration: Connection) -> str:
    """A database that is migrated once a run, and copied for each test."""
    name, execute = "template_store", postgresql_administration.execute
    execute(text("SELECT pg_advisory_lock(1)"))  # other workers come at the same time
    if not execute(text("SELECT 1 FROM pg_database WHERE datname = :name"), {"name": name}).scalar():
        execute(text(f"CREATE DATABASE {name}"))
        Store.open(postgresql_server.set(database=name).render_as_string(hide_password=False)).close()
    execute(text("SELECT pg_advisory_unlock(1)"))
    return name


@pytest.fixture(scope="session")
def databases() -> Iterator[Path]:
    """A directory for SQLite's files, in memory where there is room."""
    with tempfile.TemporaryDirectory(prefix="pilotage-sqlite-", dir=_memory()) as directory:
        yield Path(directory)


def pytest_sessionfinish() -> None:
    """Remove what workers share."""
    sqlite.forget()


@pytest.fixture
def sqlite_url(databases: Path) -> str:
    """A new SQLite store."""
    return sqlite.new_store(databases / f"{next(_numbers)}.db")


@pytest.fixture
def empty_postgresql_url(postgresql_server: URL, postgresql_administration: Connection) -> Iterator[str]:
    """A new PostgreSQL database without any tables."""
    yield from _database(postgresql_server, postgresql_administration, "template0")


@pytest.fixture
def postgresql_url(
    postgresql_server: URL, postgresql_administration: Connection, postgresql_template: str
) -> Iterator[str]:
    """A new PostgreSQL store."""
    yield from _database(postgresql_server, postgresql_administration, postgresql_template)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The address of a new store, of each kind in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A new store, of each kind in turn."""
    opened = Store.open(store_url)
    yield opened
    opened.close()


def _database(server: URL, administration: Connection, template: str) -> Iterator[str]:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    administration.execute(text(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"))
    yield server.set(database=name).render_as_string(hide_password=False)
    administration.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
