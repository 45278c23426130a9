"""The tables are brought up to date when a store is opened, by the migrations that come with the package."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from .errors import NewerStore


def upgrade(connection: Connection) -> None:
    """Migrate to the newest version within the connection's transaction. Raises :class:`NewerStore`.

    Called by the one writer, so two processes that open a store at once do not migrate twice.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    newest = ScriptDirectory.from_config(config).get_current_head()
    current = MigrationContext.configure(connection).get_current_revision()
    if current == newest:
        return
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise NewerStore(f"the store is of version {current}, this program knows up to {newest}") from error
