"""Waits of pilots in batch systems, from their histories."""

from collections import defaultdict

from sqlalchemy import Connection, select

from pilotage.model.records.states import PilotState
from pilotage.store.database.engine import Database
from pilotage.store.tables.history import events
from pilotage.store.tables.pilots import pilots

_p = pilots.c


class PilotWaits:
    """Reads how long pilots waited in batch systems before they called home."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def since(self, time: float, most: int) -> dict[str, list[float]]:
        """Return the waits in s of the newest pilots recorded after a time (s since 1970), by queue."""
        query = (
            select(_p.queue, _p.created, _p.history)
            .where(_p.created > time, _p.heartbeat.is_not(None))
            .order_by(_p.id.desc())
            .limit(most)
        )

        def read(connection: Connection) -> dict[str, list[float]]:
            found: defaultdict[str, list[float]] = defaultdict(list)
            rows = connection.execute(query).all()
            for row, told in zip(rows, events(connection, [row.history for row in rows]), strict=True):
                started = [event.time for event in told if event.target is PilotState.RUNNING]
                if started:
                    found[row.queue].append(max(0.0, started[0] - row.created))
            return dict(found)

        return self._database.read(read)
