"""Meaning of database errors: they pass, the database cannot be used now, or a record is at fault."""

import sys

from sqlalchemy.exc import DBAPIError

from pilotage.store.database.errors import DiskFailed, StoreError, StoreHeld

OUTAGE = "the store cannot be used now"
"""The beginning of the text of ``outage``."""

_PASSING = ("25P03", "40001", "40P01", "55P03", "57P01", "57P02", "57P03", "08")
"""SQLSTATEs of errors that pass by themselves: silence, serialization, deadlock, lock, shutdown,
connection."""
_OUT_OF_RESOURCES = ("53", "58", "25006")
"""SQLSTATEs of a server that lacks space, memory or connections, cannot use its disk, or is read-only."""
_OF_RECORDS = ("DataError", "IntegrityError")
"""Drivers' exceptions for values that cannot be stored, or that contradict others."""
_PASSING_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED")
_UNUSABLE_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")


def passes(error: BaseException) -> bool:
    """Return whether the same transaction may succeed on another try."""
    # The driver's own connection raises its errors without SQLAlchemy's wrapper.
    cause = error.orig if isinstance(error, DBAPIError) else error
    if _is_of_driver(cause, "OperationalError", "sqlite3"):
        # Names of extended codes begin with the plain code's name.
        return str(getattr(cause, "sqlite_errorname", "")).startswith(_PASSING_SQLITE)
    if not isinstance(error, DBAPIError) and not _is_of_driver(error, "Error"):
        return False
    state = getattr(cause, "sqlstate", None)
    if state is None:
        return getattr(error, "connection_invalidated", False) or _is_unreachable(cause)
    return str(state).startswith(_PASSING)


_HINDRANCES = {
    "25P03": "silence",
    "40001": "serialization",
    "40P01": "deadlock",
    "55P03": "lock",
    "57": "shutdown",
    "08": "connection",
}
HINDRANCES = tuple(_HINDRANCES.values())
"""All words of ``hindrance``."""
UNREACHED = ("connection", "shutdown")
"""Words for faults of a database that may be away."""


def hindrance(error: BaseException | None) -> str:
    """Return in one word what hindered a transaction that is tried again."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = str(getattr(cause, "sqlstate", None) or "")
    if str(getattr(cause, "sqlite_errorname", "")).startswith(_PASSING_SQLITE):
        return "lock"
    return next((word for begin, word in _HINDRANCES.items() if state.startswith(begin)), "connection")


def outage(error: BaseException) -> str:
    """Return in one line why the database cannot be used now; empty for other errors.

    It is unreachable, locked by a stopped process, full, or not writable.
    """
    cause = error.orig if isinstance(error, DBAPIError) else error
    name, state = (str(getattr(cause, field, None) or "") for field in ("sqlite_errorname", "sqlstate"))
    if not (
        isinstance(cause, (StoreHeld, DiskFailed))
        or passes(error)
        or name.startswith(_UNUSABLE_SQLITE)
        or (_is_of_driver(cause, "Error") and state.startswith(_OUT_OF_RESOURCES))
    ):
        return ""
    return f"{OUTAGE}: {(str(cause).strip() or type(cause).__name__).splitlines()[0]}"


def concerns_records(error: BaseException) -> bool:
    """Return whether the database, or the commit, refuses the records to write."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, (StoreError, ValueError, TypeError, LookupError, ArithmeticError)):
        return True
    drivers = ("sqlite3", "psycopg")
    if any(_is_of_driver(cause, name, driver) for name in _OF_RECORDS for driver in drivers):
        return True
    return "binding parameter" in str(cause)  # SQLite has no better word for a value of a strange type


def _is_unreachable(error: BaseException | None) -> bool:
    """Return whether the server is unreachable, starting or stopping. A wrong password would stay wrong."""
    # For this connection, a server that starts or stops is FATAL too.
    refused = "FATAL" in str(error) and "the database system is" not in str(error)
    return _is_of_driver(error, "OperationalError") and not refused


def _is_of_driver(error: BaseException | None, name: str, module: str = "psycopg") -> bool:
    """Return whether a database's driver raised it. SQLAlchemy imports the driver only for such a store."""
    driver = sys.modules.get(module)
    return driver is not None and isinstance(error, getattr(driver, name))
