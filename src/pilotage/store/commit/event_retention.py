"""The deletion of old events. Nobody decides about them; what happened stands in records' histories too."""

from sqlalchemy import Connection, bindparam, delete, func, select

from pilotage.store.database import bulk
from pilotage.store.database.engine import Database
from pilotage.store.database.sets import raw_rows
from pilotage.store.tables.events import FORGOTTEN, events
from pilotage.store.tables.numbers import numbers

BATCH = 5000
"""Most events of one transaction."""

_e = events.c
_FIRST = select(_e.id, _e.time).order_by(_e.id).limit(bindparam("most"))
_LARGEST = select(func.coalesce(func.max(_e.id), 0))
_DELETE = delete(events).where(_e.id <= bindparam("up_to"))
_LAST = select(numbers.c.last).where(numbers.c.kind == FORGOTTEN)


class EventRetention:
    """Deletes the oldest events."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def forget(self, before: float) -> int:
        """Delete events of before a time (s since 1970 UTC), one batch at most. Return how many went.

        The newest event always stays: SQLite numbers the next one after it.
        """
        return self._database.write(lambda connection: _forget(connection, before))


def _forget(connection: Connection, before: float) -> int:
    rows = raw_rows(connection, _FIRST, most=BATCH)
    largest = connection.execute(_LARGEST).scalar_one()
    # Up to the first that stays: clocks of servers differ, so times are not quite in order.
    kept = next((index for index, (_, time) in enumerate(rows) if time >= before), len(rows))
    gone = [id_ for id_, _ in rows[:kept] if id_ < largest]
    if not gone:
        return 0
    known = raw_rows(connection, _LAST)
    connection.execute(_DELETE, {"up_to": gone[-1]})
    bulk.add(connection, numbers, ("kind",), "last", [(FORGOTTEN, gone[-1] - (known[0][0] if known else 0))])
    return len(gone)
