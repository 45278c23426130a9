"""Read the rights, settings and sizes of a database that matter to a store."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, text

from pilotage.store.database.dialects import SQLITE, dialect_of

SETTINGS = (
    *("fsync", "full_page_writes", "autovacuum", "max_connections", "server_version"),
    *("server_version_num", "statement_timeout", "transaction_timeout", "idle_session_timeout"),
    "default_transaction_read_only",
)
"""Settings of PostgreSQL that matter, as this user's connections have them."""

_SETTINGS = text("SELECT name, setting FROM pg_settings WHERE name = ANY(:names)")
_FACTS = text(
    "SELECT pg_is_in_recovery() AS replica, "
    "has_schema_privilege(current_schema(), 'CREATE') AS creates, "
    "(SELECT count(*) FROM pg_stat_activity) AS connections, "
    "pg_database_size(current_database()) AS bytes, "
    "current_user AS login, current_schema() AS schema, "
    "coalesce((SELECT max(age(datfrozenxid)) FROM pg_database), 0) AS age"
)

_MARK = text("SELECT set_config('pilotage.session', :mark, false)")
_MARKED = text("SELECT current_setting('pilotage.session', true)")
_LOOKS = 5
"""Connections that look for the mark of another one: a busy pooler may give them other sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """Rights, settings and sizes (bytes) of a database."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings by name, as the database writes them."""
    bytes: int = 0
    """Size of the database."""
    is_replica: bool = False
    """Whether it only follows another one, and takes no writes."""
    may_create: bool = True
    """Whether this user may make tables, as migrations do."""
    connections: int = 0
    """Connections of all clients."""
    oldest_age: int = 0
    """Transactions since the oldest row that was not frozen."""
    login: str = ""
    """The user of the connection."""
    schema: str = ""
    """The schema that has the tables."""


def inspected(connection: Connection) -> DatabaseFacts:
    """Read the facts about the database at a connection."""
    if dialect_of(connection) is SQLITE:
        return _sqlite(connection)
    rows = connection.execute(_SETTINGS, {"names": list(SETTINGS)})
    facts = connection.execute(_FACTS).one()
    return DatabaseFacts(
        settings={str(row.name): str(row.setting) for row in rows},
        bytes=facts.bytes,
        is_replica=facts.replica,
        may_create=bool(facts.creates),
        connections=facts.connections,
        oldest_age=facts.age,
        login=facts.login,
        schema=facts.schema or "",
    )


def share_a_session(engine: Engine) -> bool:
    """Return whether a connection to PostgreSQL gets the session of another one that is still open.

    A pooler that takes sessions back after each transaction does so.
    """
    mark = secrets.token_hex(8)
    with engine.connect() as first:
        first.execute(_MARK, {"mark": mark})
        first.commit()
        for _ in range(_LOOKS):
            with engine.connect() as second:
                if second.execute(_MARKED).scalar() == mark:
                    return True
    return False


def faults_of_pages(connection: Connection) -> list[str]:
    """Return the first few faults that SQLite finds in its file. This reads the whole file."""
    faults = [str(row[0]) for row in connection.execute(text("PRAGMA quick_check(5)"))]
    return [] if faults == ["ok"] else faults


def _sqlite(connection: Connection) -> DatabaseFacts:
    settings = {
        name: str(connection.execute(text(f"PRAGMA {name}")).scalar())
        for name in ("journal_mode", "page_count", "page_size")
    }
    return DatabaseFacts(settings=settings, bytes=int(settings["page_count"]) * int(settings["page_size"]))
