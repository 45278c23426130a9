"""Periods when pilots of one queue or all could not call. Time-outs do not count these periods."""

from sqlalchemy import Column, Connection, Double, String, Table, bindparam, delete, func, select, text

from pilotage.model.records.servers import Absence
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import raw_rows
from pilotage.store.servers.servers import servers

KEPT_FOR = 30 * 86400.0
"""Seconds after which an absence is deleted: longer than any job is at a pilot."""

MOST = 1000
"""Most absences that are read, the newest."""

absences = Table(
    "absences",
    metadata,
    Column("began", Double, primary_key=True),
    Column("queue", String, primary_key=True, server_default=text("''")),
    Column("ended", Double, nullable=False),
)

_a, _s = absences.c, servers.c
_NEWEST_BEAT = select(func.max(_s.seen)).where(_s.url != "")
# Two servers that start together read the same last beat.
_NOTE = upsert(absences, ["began", "queue"], ["began", "queue", "ended"], replaced(["ended"]))
_OLD = delete(absences).where(_a.ended < bindparam("before"))
_ALL = select(_a.queue, _a.began, _a.ended).order_by(_a.began.desc()).limit(MOST)


class Absences:
    """Records when all servers were away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, now: float, least: float) -> None:
        """Record an absence of ``least`` s or more until ``now``, since the last heartbeat of any API
        server.

        A server calls this before its first heartbeat.
        """

        def write(connection: Connection) -> None:
            newest = connection.execute(_NEWEST_BEAT).scalar()
            if newest is not None and now - newest >= least:
                connection.execute(_OLD, {"before": now - KEPT_FOR})
                connection.execute(_NOTE, {"queue": "", "began": newest, "ended": now})

        self._database.write(write, alone=False)

    def note_closed(self, queue: str, began: float, now: float) -> None:
        """Record that the tunnel of a queue's pilots was closed from ``began`` until ``now``."""
        values = {"queue": queue, "began": began, "ended": now}
        self._database.write(lambda connection: connection.execute(_NOTE, values) and None, alone=False)


def everything(connection: Connection) -> tuple[Absence, ...]:
    """Return the absences, the oldest first."""
    rows = reversed(raw_rows(connection, _ALL))
    return tuple(Absence(queue=queue, began=began, ended=ended) for queue, began, ended in rows)
