"""Leases of work that one server at a time does. A lease lasts as long as its server."""

from collections.abc import Callable

from sqlalchemy import Column, Connection, Double, String, Table, bindparam, delete, insert, select, update

from pilotage.store.database.columns import metadata
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import LeaseLost
from pilotage.store.database.rows import raw_rows

leases = Table(
    "leases",
    metadata,
    Column("work", String, primary_key=True),
    Column("server", String, nullable=False),
    Column("since", Double, nullable=False),
)

_l = leases.c
_HOLDER = select(_l.server).where(_l.work == bindparam("of"))
_ALL = select(_l.work, _l.server, _l.since)
_TAKE_OVER = (
    update(leases)
    .where(_l.work == bindparam("of"), _l.server == bindparam("before"))
    .values(server=bindparam("by"), since=bindparam("at"))
)
_GIVE_BACK = delete(leases).where(_l.work == bindparam("of"), _l.server == bindparam("by"))


class Leases:
    """Gives each piece of work to one server at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, work: str, server: str, time: float, is_gone: Callable[[str], bool]) -> bool:
        """Take the lease of some work. Return False while a server that is not gone has it."""
        holder = self._database.read(lambda connection: _holder(connection, work))
        if holder == server:
            return True
        if holder is not None and not is_gone(holder):
            return False

        def write(connection: Connection) -> bool:
            if holder is None and _holder(connection, work) is None:
                connection.execute(insert(leases), {"work": work, "server": server, "since": time})
                return True
            values = {"of": work, "before": holder, "by": server, "at": time}
            return connection.execute(_TAKE_OVER, values).rowcount > 0

        return self._database.write(write)

    def give_back(self, work: str, server: str) -> None:
        """End the lease of a server, if it still has it."""
        self._database.write(lambda connection: connection.execute(_GIVE_BACK, {"of": work, "by": server}))

    def holders(self) -> dict[str, str]:
        """Return the server that has each lease, by work."""
        return self._database.read(lambda connection: {row[0]: row[1] for row in raw_rows(connection, _ALL)})


def require(connection: Connection, work: str, server: str) -> None:
    """Raise ``LeaseLost`` inside a transaction unless a server has the lease of some work."""
    if _holder(connection, work) != server:
        raise LeaseLost(work)


def _holder(connection: Connection, work: str) -> str | None:
    rows = raw_rows(connection, _HOLDER, of=work)
    return rows[0][0] if rows else None
