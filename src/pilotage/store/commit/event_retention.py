"""Delete old events, and notifications that were sent or given up long ago.

This needs no decision. The histories of records keep the same transitions.
"""

from sqlalchemy import Connection, bindparam, delete, func, select

from pilotage.model.records.states import ENDED, NotificationState
from pilotage.store.database import bulk
from pilotage.store.database.columns import is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import raw_rows
from pilotage.store.history.events import FORGOTTEN, events
from pilotage.store.history.numbers import numbers
from pilotage.store.people.notifications import notifications

BATCH = 5000
"""Most events of one transaction."""

_e, _n = events.c, notifications.c
_FIRST = select(_e.id, _e.time).order_by(_e.id).limit(bindparam("most"))
_LARGEST = select(func.coalesce(func.max(_e.id), 0))
_DELETE = delete(events).where(_e.id <= bindparam("up_to"))
_ENDED = tuple(state for state in NotificationState if state in ENDED["notification"])
_SENT = (
    select(_n.id)
    .where(is_state(notifications, *_ENDED), _n.since < bindparam("before"))
    .limit(bindparam("most", type_=None))
)
_DELETE_SENT = delete(notifications).where(_n.id.in_(_SENT))
_LAST = select(numbers.c.last).where(numbers.c.kind == FORGOTTEN)


class EventRetention:
    """Deletes the oldest events, and old notifications."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def forget(self, before: float) -> int:
        """Delete events before a time (s since 1970 UTC), one batch at most. Return how many.

        The newest event always stays: SQLite numbers the next one after it.
        """
        return self._database.write(lambda connection: _forget(connection, before))

    def forget_notifications(self, before: float) -> int:
        """Delete notifications that ended before a time (s since 1970 UTC), one batch at most.

        Return how many.
        """
        values = {"before": before, "most": BATCH}
        return self._database.write(lambda connection: connection.execute(_DELETE_SENT, values).rowcount)


def _forget(connection: Connection, before: float) -> int:
    rows = raw_rows(connection, _FIRST, most=BATCH)
    largest = connection.execute(_LARGEST).scalar_one()
    # Stop at the first event that stays: times are not quite in order, because servers' clocks differ.
    first_kept = next((index for index, (_, time) in enumerate(rows) if time >= before), len(rows))
    gone = [id_ for id_, _ in rows[:first_kept] if id_ < largest]
    if not gone:
        return 0
    last_forgotten = raw_rows(connection, _LAST)
    connection.execute(_DELETE, {"up_to": gone[-1]})
    bulk.add(
        connection,
        numbers,
        ("kind",),
        "last",
        [(FORGOTTEN, gone[-1] - (last_forgotten[0][0] if last_forgotten else 0))],
    )
    return len(gone)
