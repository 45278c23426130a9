"""Bring the tables up to date when a store is opened: new ones as declared, older ones by migrations."""

import re
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from pilotage.store.database.errors import NewerStore, UnreleasedStore
from pilotage.store.migrations import functions
from pilotage.store.records import with_all_indexes

MIGRATIONS = Path(__file__).parent / "migrations"
"""The folder of the migrations: a file for each version."""
_FIRST_RELEASE = "0200"
"""The version of the tables in the first release."""

_REVISION = re.compile(r'^revision = "(\w+)"', re.MULTILINE)
_BEFORE = re.compile(r'^down_revision = "(\w+)"', re.MULTILINE)

_VERSION = """
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""
"""Alembic's version table, in Alembic's own form."""


def upgrade(connection: Connection) -> None:
    """Migrate the tables to the newest version, inside the connection's transaction.

    Servers of the previous version may run during this: migrations only add, and ``finish`` drops.

    Raises ``NewerStore`` and ``UnreleasedStore``. Only the single writer calls it, so two processes that open
    a store do not both migrate it.
    """
    current = version_of(connection)
    if current is None and not inspect(connection).get_table_names():
        _create(connection)
    elif current != newest():
        _migrate(connection, current)
    elif not functions.are_current(connection):
        functions.make(connection)


def make(connection: Connection, version: str) -> None:
    """Make the tables of a version where there are none. Raises NewerStore and UnreleasedStore."""
    if version == newest():
        _create(connection)
    else:
        _migrate(connection, version, version)


def finish(connection: Connection) -> None:
    """Drop what only servers of the previous version need. All of them must have ended."""
    functions.drop_former(connection)


def is_current(connection: Connection) -> bool:
    """Return whether the tables and functions have the newest version that this program knows."""
    return version_of(connection) == newest() and functions.are_current(connection)


@cache
def newest() -> str:
    """Return the version of the migration that no other migration follows."""
    texts = [path.read_text() for path in (MIGRATIONS / "versions").glob("v*.py")]
    before = {match[1] for text in texts if (match := _BEFORE.search(text))}
    (last,) = {match[1] for text in texts if (match := _REVISION.search(text))} - before
    return last


def version_of(connection: Connection) -> str | None:
    """Return the version of Pilotage's tables; None if the database has none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if version is None else str(version)


def _create(connection: Connection) -> None:
    """Make the tables as they are after all migrations, in a seventh of the time. A test compares them."""
    with_all_indexes().create_all(connection, checkfirst=False)
    functions.make(connection)
    connection.execute(text(_VERSION))
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": newest()})


def _migrate(connection: Connection, current: str | None, target: str = "head") -> None:
    if current is not None and current < _FIRST_RELEASE:
        raise UnreleasedStore(current)
    # Import it only when needed: it adds a tenth to the memory of a server.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, target)
    except CommandError as error:
        support = f"this program knows up to {newest()}"
        raise NewerStore(f"the store has version {current}, {support}") from error
