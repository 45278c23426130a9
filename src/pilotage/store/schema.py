"""Bring the tables up to date when a store is opened, by the migrations that come with the package."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from .errors import NewerStore

_MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection) -> None:
    """Migrate to the newest version within the connection's transaction. Raises :class:`NewerStore`.

    Called by the one writer, so two processes that open a store at once do not migrate twice.
    """
    if not is_current(connection):
        _migrate(connection, _current(connection))


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
