"""Upgrade a store while servers of the previous version run: first add, and drop at the end."""

from dataclasses import dataclass

from sqlalchemy import text

from pilotage.release import full_version
from pilotage.store import schema
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import StoreError
from pilotage.store.servers.servers import Servers

UPGRADER = "upgrade"
"""The name of an upgrade's sessions, in the place of a server's name."""

_UNNAMED = text(
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = :session AND datname = current_database()"
)


class OlderServersRun(StoreError):
    """Servers of another version still use the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUpgrade:
    """The versions of a store's tables before an upgrade (None: there were none) and after it."""

    before: str | None
    after: str


def upgrade(url: str) -> StoreUpgrade:
    """Bring a store's tables up to date. Servers of the previous version may run. Raises NewerStore."""
    database = Database(url, UPGRADER)
    try:
        before = database.write(schema.version_of)
        database.write(schema.upgrade)
        return StoreUpgrade(before=before, after=schema.newest())
    finally:
        database.close()


def finish(url: str) -> None:
    """Drop what only servers of the previous version need. Raises ``OlderServersRun``."""
    database = Database(url, UPGRADER)
    try:
        if not database.write(schema.is_current):
            raise OlderServersRun("the store is not upgraded yet: first `pilotage store upgrade`")
        version = full_version()
        servers = [
            f"{server.name} ({server.version})"
            for server in Servers(database).everything()
            if server.state == "live" and server.version != version
        ]
        if servers:
            raise OlderServersRun(f"servers of another version run: {', '.join(servers)}; end them first")
        if unnamed := _unnamed_sessions(database):
            raise OlderServersRun(
                f"{unnamed} sessions belong to servers of the previous version or to commands: end them first"
            )
        database.write(schema.finish)
    finally:
        database.close()


def _unnamed_sessions(database: Database) -> int:
    """Return how many sessions do not name their server."""
    if not database.is_postgresql:
        return 0
    values = {"session": Database.session_of("")}
    return int(database.read(lambda connection: connection.execute(_UNNAMED, values).scalar_one()))
