"""Live pilots, which loops read again and again. Values that never change are read once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from pilotage.model.records.states import LIVE_PILOTS
from pilotage.model.records.work import Pilot
from pilotage.store.database.columns import is_state
from pilotage.store.database.sets import among, raw_rows
from pilotage.store.tables.pilots import PILOT_COLUMNS, PILOT_STATES, pilot, pilots

_p = pilots.c
_CHANGING = (_p.state, _p.since, _p.reference, _p.heartbeat, _p.matched, _p.error, _p.containment, _p.node)
_TOLD = (
    _p.lacks,
    _p.waits,
    _p.agent_version,
    _p.missing_since,
    _p.ended_there_since,
    _p.end_doubt,
    _p.server,
)
_LIVE = select(_p.id, *_CHANGING, *_TOLD).where(is_state(pilots, *LIVE_PILOTS))
_WHOLE = select(*PILOT_COLUMNS).where(among(_p.id, "ids"))

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
                found[row[0]] = before if before[0] == row else (row, _changed(before[1], row))
        self._known = found
        return tuple([one for _, one in found.values()])


def _changed(before: Pilot, row: Row) -> Pilot:
    """Return a pilot updated from a row with the changing columns."""
    return replace(
        before,
        state=PILOT_STATES[row[1]],
        since=row[2],
        reference=row[3],
        heartbeat=row[4],
        matched=row[5],
        error=row[6],
        containment=row[7],
        node=row[8],
        lacks=row[9],
        waits=row[10],
        agent_version=row[11],
        missing_since=row[12],
        ended_there_since=row[13],
        end_doubt=row[14],
        server=row[15],
    )
