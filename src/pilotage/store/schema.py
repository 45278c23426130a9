"""Bring the tables up to date when a store is opened: new ones as declared, older ones by migrations."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from .database.errors import NewerStore
from .migrations import functions
from .tables.records import with_all_indexes

_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = """
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""
"""The table in which Alembic notes the version, as Alembic makes it."""


def upgrade(connection: Connection) -> None:
    """Bring the tables to the newest version within the connection's transaction. Raises :class:`NewerStore`.

    Called by the one writer, so two processes that open a store at once do not migrate twice.
    """
    current = _current(connection)
    if current is None and not inspect(connection).get_table_names():
        _create(connection)
    elif current != newest():
        _migrate(connection, current)


def is_current(connection: Connection) -> bool:
    """Tell whether the tables are of the newest version that this program knows."""
    return _current(connection) == newest()


def newest() -> str:
    """The newest version that this program knows, from the files of migrations: ``v0003_....py`` is 0003."""
    return max(path.name[1:5] for path in (_MIGRATIONS / "versions").glob("v*.py"))


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _create(connection: Connection) -> None:
    """Make what all migrations together would leave: a test compares them. It takes a seventh of the time."""
    with_all_indexes().create_all(connection, checkfirst=False)
    functions.make(connection)
    connection.execute(text(_VERSION))
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": newest()})


def _migrate(connection: Connection, current: str | None) -> None:
    # Imported where it is needed: a server whose store is up to date is smaller by a tenth without it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        known = f"this program knows up to {newest()}"
        raise NewerStore(f"the store is of version {current}, {known}") from error
