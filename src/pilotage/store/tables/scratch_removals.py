"""Scratch areas of ended attempts that are to be removed: another server does what a killed one left."""

from collections.abc import Iterable

from sqlalchemy import Column, Connection, Double, Index, String, Table, bindparam, delete, select, update

from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata
from pilotage.store.database.engine import Database

AT_ONCE = 1000
"""Most removals that one pass begins."""

AGAIN = 60.0
"""Seconds until a removal is tried again. An older one waits as long again as it has waited."""

KEPT_FOR = 7 * 86400.0
"""Seconds after which a removal is given up."""

scratch_removals = Table(
    "scratch_removals",
    metadata,
    Column("storage", String, primary_key=True),
    Column("path", String, primary_key=True),
    Column("since", Double, nullable=False),
    Column("due", Double, nullable=False),
    Column("last", Double, nullable=False),
    Index("scratch_removals_due", "due"),
)

Place = tuple[str, str]
"""A storage's name, and a path there."""

_COLUMNS = ("storage", "path", "since", "due", "last")
_r = scratch_removals.c
_ONE = (_r.storage == bindparam("of"), _r.path == bindparam("at"))
_DUE = select(_r.storage, _r.path, _r.since).where(_r.due <= bindparam("now")).order_by(_r.due).limit(AT_ONCE)
_PUT_OFF = update(scratch_removals).where(*_ONE).values(due=bindparam("next"))
_DELETE = delete(scratch_removals).where(*_ONE)
_DONE = _DELETE.where(_r.last <= bindparam("now"))
_ONCE_MORE = update(scratch_removals).where(*_ONE).values(due=_r.last)


class ScratchRemovals:
    """Keeps removals until they are done. Times are in s since 1970 UTC."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, places: Iterable[tuple[Place, float]], since: float, last: float) -> None:
        """Keep removals, each with the time when it is due first. The last one comes at ``last`` or later:
        what was on its way to a storage may arrive after the first one."""
        rows = [(*place, since, due, last) for place, due in places]
        if rows:
            self._database.write(
                lambda connection: bulk.insert(connection, scratch_removals, _COLUMNS, rows, once=True),
                alone=False,
            )

    def due(self, now: float) -> list[Place]:
        """Return removals that are to be done now. The caller removes them, or they are due again later."""
        if not self._database.read(lambda connection: connection.execute(_DUE, {"now": now}).first()):
            return []
        return self._database.write(lambda connection: _taken(connection, now), alone=False)

    def done(self, place: Place, now: float) -> None:
        """Forget a removal that was done at a time, or let it be done once more."""
        one = {"of": place[0], "at": place[1]}

        def write(connection: Connection) -> None:
            if not connection.execute(_DONE, one | {"now": now}).rowcount:
                connection.execute(_ONCE_MORE, one)

        self._database.write(write, alone=False)


def _taken(connection: Connection, now: float) -> list[Place]:
    rows = connection.execute(_DUE, {"now": now}).all()
    old = [{"of": storage, "at": path} for storage, path, since in rows if now - since > KEPT_FOR]
    if old:
        connection.execute(_DELETE, old)
    later = [
        {"of": storage, "at": path, "next": now + max(AGAIN, now - since)}
        for storage, path, since in rows
        if now - since <= KEPT_FOR
    ]
    if later:
        connection.execute(_PUT_OFF, later)
    return [(storage, path) for storage, path, _ in rows]
