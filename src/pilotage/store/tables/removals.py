"""What is to be removed from storages: another server does what a killed one left."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from sqlalchemy import Column, Connection, Double, Index, String, Table, bindparam, delete, select, update

from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata, text_column
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among

AT_ONCE = 1000
"""Most removals that one pass begins."""

AGAIN = 60.0
"""Seconds until a removal is tried again. An older one waits as long again as it has waited."""

KEPT_FOR = 7 * 86400.0
"""Seconds after which a removal is given up."""

removals = Table(
    "removals",
    metadata,
    Column("storage", String, primary_key=True),
    Column("path", String, primary_key=True),
    text_column("file"),
    Column("since", Double, nullable=False),
    Column("due", Double, nullable=False),
    Column("last", Double, nullable=False),
    Index("removals_due", "due"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A folder or copy to remove, asked for at ``since``, from ``due`` on. Times are in s since 1970 UTC.

    It is done once more at ``last`` if that is later: what was on its way to a storage may arrive after the
    first one. A copy names its ``file``, of which there may be a new copy in the same place.
    """

    storage: str
    path: str
    file: str = ""
    since: float
    due: float
    last: float


_COLUMNS = tuple(field.name for field in fields(Removal))
_r = removals.c
_ONE = (_r.storage == bindparam("of"), _r.path == bindparam("at"))
_DUE = (
    select(*(_r[name] for name in _COLUMNS))
    .where(_r.due <= bindparam("now"), ~among(_r.storage, "unable"))
    .order_by(_r.due)
    .limit(AT_ONCE)
)
_PUT_OFF = update(removals).where(*_ONE).values(due=bindparam("next"))
_DELETE = delete(removals).where(*_ONE)
_DONE = _DELETE.where(_r.last <= bindparam("now"))
_ONCE_MORE = update(removals).where(*_ONE).values(due=_r.last)


class Removals:
    """Keeps removals until they are done."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Sequence[Removal]) -> None:
        """Keep removals."""
        rows = [astuple(one) for one in new]
        if rows:
            self._database.write(
                lambda connection: bulk.insert(connection, removals, _COLUMNS, rows, once=True), alone=False
            )

    def due(self, now: float, unable: Collection[str] = ()) -> list[Removal]:
        """Return removals that are to be done now. Until ``done`` they are due again later.

        Leave those at ``unable`` storages to another server.
        """
        asked = {"now": now, "unable": sorted(unable)}
        if not self._database.read(lambda connection: connection.execute(_DUE, asked).first()):
            return []
        return self._database.write(lambda connection: _taken(connection, asked, now), alone=False)

    def done(self, one: Removal, now: float) -> None:
        """Forget a removal that was done at a time, or let it be done once more."""
        place = {"of": one.storage, "at": one.path}

        def write(connection: Connection) -> None:
            if not connection.execute(_DONE, place | {"now": now}).rowcount:
                connection.execute(_ONCE_MORE, place)

        self._database.write(write, alone=False)


def _taken(connection: Connection, asked: Mapping[str, Any], now: float) -> list[Removal]:
    found = [Removal(**row) for row in connection.execute(_DUE, asked).mappings()]
    old = [{"of": one.storage, "at": one.path} for one in found if now - one.since > KEPT_FOR]
    if old:
        connection.execute(_DELETE, old)
    later = [
        {"of": one.storage, "at": one.path, "next": now + max(AGAIN, now - one.since)}
        for one in found
        if now - one.since <= KEPT_FOR
    ]
    if later:
        connection.execute(_PUT_OFF, later)
    return found
