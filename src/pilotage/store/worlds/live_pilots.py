"""Live pilots, which loops read again and again. Values that never change are read once."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from pilotage.model.records.states import LIVE_PILOTS
from pilotage.model.records.work import Pilot
from pilotage.store.database.columns import is_state
from pilotage.store.database.record_columns import changer, settable_fields
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.tables.pilots import PILOT_COLUMNS, pilot, pilots

_p = pilots.c
_CHANGING = ("state", "since", *settable_fields(Pilot))
_LIVE = select(_p.id, *(_p[name] for name in _CHANGING)).where(is_state(pilots, *LIVE_PILOTS))
_WHOLE = select(*PILOT_COLUMNS).where(among(_p.id, "ids"))

_changed = changer(Pilot, _CHANGING)
Row = tuple[Any, ...]


class LivePilots:
    """Reads the pilots of one store that have not ended. Safe to use from many threads."""

    def __init__(self) -> None:
        # Records made from rows. Each reader replaces the whole, so none sees another's half.
        self._known: Mapping[int, tuple[Row, Pilot]] = {}

    def read(self, connection: Connection) -> tuple[Pilot, ...]:
        """Return all live pilots by number."""
        known = self._known
        # Sort here: SQLite is slower.
        rows = sorted(raw_rows(connection, _LIVE))
        new = [row[0] for row in rows if row[0] not in known]
        whole = {row[0]: pilot(row) for row in raw_rows(connection, _WHOLE, ids=new)} if new else {}
        found: dict[int, tuple[Row, Pilot]] = {}
        for row in rows:
            before = known.get(row[0])
            if before is None:
                found[row[0]] = (row, whole[row[0]])
            else:
                found[row[0]] = before if before[0] == row else (row, _changed(before[1], row[1:]))
        self._known = found
        return tuple([one for _, one in found.values()])
