"""Checks of the store: whether it opens, its rights, settings, clock and size."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pilotage.model.values.phrases import plural
from pilotage.server.doctor.checks import Finding, check, warning
from pilotage.server.doctor.installation import Installation, NotExamined
from pilotage.server.doctor.server import SET_CLOCK, seconds_ahead, skew
from pilotage.store_address import is_there, shown_address

if TYPE_CHECKING:
    from pilotage.store.database.inspection import DatabaseFacts

OLDEST_POSTGRESQL = 130_000
"""The oldest release whose functions the store calls, as PostgreSQL numbers it."""

CONNECTIONS = 97
"""Most connections of one server: its transactions, single statements and notices."""

RESERVED = 3
"""Connections that PostgreSQL keeps for its superuser."""

FROZEN_AGE = 1_000_000_000
"""Transactions after which rows should long be frozen. At twice as many PostgreSQL refuses writes."""

LARGEST_CHECKED = 2_000_000_000
"""Bytes of the largest SQLite file that is read as a whole."""

AUDIT_PART = 10_000
"""Records of the audit that are verified together."""

LOSSES = {
    "fsync": "a power failure may destroy the database",
    "full_page_writes": "a power failure may destroy the database",
    "autovacuum": "tables grow, queries slow down, and in the end it refuses writes",
}
"""Settings that lose data or time in the end where they are off, with the reason."""


@check("store", first=True)
def store_opens(installation: Installation) -> Iterator[Finding]:
    """Open the store of this machine's server, if there is one. Nothing is migrated."""
    installation.lacks["store"] = "no store on this machine"
    try:
        import sqlalchemy  # noqa: F401 -- a machine with the client alone has none
    except ImportError:
        return
    url = installation.settings.store
    try:
        if not is_there(url):
            return
    except ValueError as error:
        yield Finding(
            what=f"PILOTAGE_STORE {error}", why="no server starts", mend="export PILOTAGE_STORE=..."
        )
        return
    faults = [*_unusable(url)]
    if faults:
        installation.lacks["store"] = faults[0].what
        yield from faults
        return
    from pilotage.store import Store

    installation.open_store = Store.open(url)


def _unusable(url: str) -> Iterator[Finding]:
    """Yield why a store cannot be opened, or not without an upgrade."""
    from sqlalchemy.exc import SQLAlchemyError

    from pilotage.store import schema
    from pilotage.store.database.engine import Database

    name, newest = shown_address(url), schema.newest()
    database = Database(url)
    try:
        # Without the retries of a server, which wait until a database is back.
        with database.engine.connect() as connection:
            version = schema.version_of(connection)
    except (SQLAlchemyError, OSError) as error:
        yield Finding(
            what=f"the store {name} cannot be opened: {_reason(error)}",
            why="a server here can neither start nor go on",
            mend="start the database, or export PILOTAGE_STORE with its address, user and password",
        )
        return
    finally:
        database.close()
    if version != newest:
        is_newer = version is not None and version > newest
        yield Finding(
            what=f"the tables of the store {name} are of version {version}, not {newest}",
            why="this program is older and would refuse it" if is_newer else "the next server upgrades it",
            mend="pip install --upgrade pilotage" if is_newer else "pilotage store backup FILE; pilotage up",
            severity="fault" if is_newer else "warning",
        )


def _reason(error: Exception) -> str:
    """Return a database's error in its own words, on one line."""
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def _facts(installation: Installation) -> "DatabaseFacts":
    from pilotage.store.database.inspection import inspected

    return installation.store.database.read(inspected)


def _refuse_sqlite(installation: Installation) -> None:
    if not installation.store.database.is_postgresql:
        raise NotExamined("the store is a SQLite file")


def _postgresql(installation: Installation) -> "DatabaseFacts":
    _refuse_sqlite(installation)
    return _facts(installation)


@check("database writes")
def takes_writes(installation: Installation) -> Iterator[Finding]:
    """Write a few bytes."""
    store = installation.store
    try:
        store.try_to_write()
    except Exception as error:  # whatever the driver raises is what an operator must read
        holder = store.held_by()
        yield Finding(
            what=f"the store takes no write: {_reason(error)}" + (f"; {holder} holds it" if holder else ""),
            why="nothing is decided, and no pilot gets work",
            mend="free its disk, give its user the right to write, or end what holds it",
        )


@check("database rights")
def database_rights(installation: Installation) -> Iterator[Finding]:
    """Ask whether the user may do what servers and upgrades do."""
    facts = _postgresql(installation)
    if facts.is_replica:
        yield Finding(
            what="the database is a replica: it takes no writes",
            why="nothing is decided",
            mend="export PILOTAGE_STORE with the primary's address; or promote it: SELECT pg_promote()",
        )
    elif not facts.may_create:
        yield warning(
            f"{facts.login} may make no tables in the schema {facts.schema}",
            "the next upgrade fails",
            f"GRANT CREATE ON SCHEMA {facts.schema} TO {facts.login}, in psql",
        )


@check("database settings")
def database_settings(installation: Installation) -> Iterator[Finding]:
    """Look for settings that lose data, or end what servers do."""
    facts = _postgresql(installation)
    values = facts.settings
    for name, effect in LOSSES.items():
        if values.get(name) == "off":
            yield Finding(
                what=f"{name} is off",
                why=effect,
                mend=f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf(), in psql",
            )
    for name in ("statement_timeout", "transaction_timeout", "idle_session_timeout"):
        if (limit := int(values.get(name, "0"))) and limit < 60_000:
            yield warning(
                f"{name} is {limit / 1000:g} s",
                "long reads of a large store, and idle connections, are cut off",
                f"ALTER ROLE {facts.login} SET {name} = 0, in psql",
            )
    if values.get("default_transaction_read_only") == "on":
        yield Finding(
            what="transactions of this user only read",
            why="nothing is decided",
            mend=f"ALTER ROLE {facts.login} SET default_transaction_read_only = off, in psql",
        )
    if int(values.get("server_version_num", "0")) < OLDEST_POSTGRESQL:
        yield Finding(
            what=f"PostgreSQL is of version {values.get('server_version')}",
            why="it lacks functions that the store calls",
            mend="upgrade it to version 13 or newer",
        )


@check("database pooler")
def database_pooler(installation: Installation) -> Iterator[Finding]:
    """Ask whether two connections share a session of the database, which they then confuse."""
    from pilotage.store.database.inspection import share_a_session

    _refuse_sqlite(installation)
    if share_a_session(installation.store.database.engine):
        yield Finding(
            what="a pooler gives the database's sessions to others after each transaction",
            why="servers do not hear each other, and prepared statements fail or run twice as long",
            mend="pool_mode = session, in pgbouncer.ini; or PILOTAGE_STORE with the database's own address",
        )


@check("database connections")
def database_connections(installation: Installation) -> Iterator[Finding]:
    """Look for room for the connections of all live servers."""
    facts = _postgresql(installation)
    servers = max(1, sum(server.state == "live" for server in installation.store.servers.everything()))
    needed = servers * CONNECTIONS
    limit = int(facts.settings.get("max_connections", "0"))
    if facts.connections > 0.8 * limit:
        yield Finding(
            what=f"{facts.connections} of {limit} connections are taken",
            why="a server that gets none stops deciding",
            mend="ALTER SYSTEM SET max_connections = 400, in psql, and restart PostgreSQL",
        )
    elif limit < needed + RESERVED:
        yield warning(
            f"the database takes {limit} connections, and {plural(servers, 'busy server')} may open {needed}",
            "under load, requests wait or fail",
            f"ALTER SYSTEM SET max_connections = {max(400, needed + 100)}, in psql, and restart PostgreSQL",
        )
    if facts.oldest_age > FROZEN_AGE:
        yield Finding(
            what=f"the oldest row is {facts.oldest_age:,} transactions old",
            why="at two thousand million PostgreSQL refuses writes",
            mend="VACUUM (FREEZE), in psql; find out what holds autovacuum up",
        )


@check("database file")
def database_file(installation: Installation) -> Iterator[Finding]:
    """Read SQLite's file for broken pages."""
    from pilotage.store.database.inspection import faults_of_pages

    if installation.store.database.is_postgresql:
        raise NotExamined("the store is on PostgreSQL")
    facts = _facts(installation)
    if facts.settings["journal_mode"] not in ("wal", "memory"):
        yield Finding(
            what=f"the journal mode of the store is {facts.settings['journal_mode']}, not wal",
            why="readers and the writer wait for each other, as on file systems without shared memory",
            mend="move PILOTAGE_HOME to a local disk",
        )
    if facts.bytes > LARGEST_CHECKED:
        return
    for fault in installation.store.database.read(faults_of_pages):
        yield Finding(
            what=f"the store's file is broken: {fault}",
            why="what it holds may be wrong or lost",
            mend="end the servers; pilotage store restore --replace BACKUP",
        )


@check("database clock")
def database_clock(installation: Installation) -> Iterator[Finding]:
    """Compare the database's clock with this machine's."""
    from pilotage.store.clock import time_of

    _refuse_sqlite(installation)
    ahead = seconds_ahead(lambda: time_of(installation.store.database))
    effect = "the database's time counts, and this machine's logs tell another"
    yield from skew("the database's clock", ahead, effect, SET_CLOCK)


@check("backup programs")
def backup_programs(installation: Installation) -> Iterator[Finding]:
    """Look for the programs that back up PostgreSQL."""
    _refuse_sqlite(installation)
    for program in ("pg_dump", "pg_restore"):
        if shutil.which(program) is None:
            yield warning(
                f"{program} is not installed here",
                "pilotage store backup and restore need it",
                "apt install postgresql-client",
            )


@check("audit")
def audit_is_whole(installation: Installation) -> Iterator[Finding]:
    """Verify the links of the audit's records."""
    after = 0
    while True:
        part = installation.store.audit.verify(after, AUDIT_PART)
        for fault in part.faults:
            yield Finding(
                what=f"record {fault.record} of the audit: {fault.text}",
                why="somebody changed the database itself, and what was done may not be shown",
                mend="compare it with an export or a backup; change the database's password",
            )
        if not (after := part.next):
            return
