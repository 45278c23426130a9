"""Records that stay in a state for long, and the usual times of records that ended lately."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, func, literal_column, select

from pilotage.model.records.states import ENDED, Kind
from pilotage.model.rules.stuck import EXPECTED, Stay, StayingRecord
from pilotage.store.database.columns import is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among
from pilotage.store.history import history
from pilotage.store.history.events import events, unpacked
from pilotage.store.history.history import meanings
from pilotage.store.jobs import table as job_rows
from pilotage.store.records import RECORDS

MOST_LIVE = 5000
"""Most records of a kind in one state that are read, the oldest."""

MOST_PAST = 500
"""Newest ended records of a kind to read for usual times."""

MOST_EVENTS = 20_000
"""Newest events to search for ended jobs: no index has ended jobs."""

_j = job_rows.jobs.c
_PLACES: Mapping[Kind, ColumnElement[str]] = {
    "task": RECORDS["task"].c.share,
    "job": func.coalesce(func.nullif(_j.queue, ""), _j.share),
    "transfer": RECORDS["transfer"].c.destination,
    "pilot": RECORDS["pilot"].c.queue,
    "publication": RECORDS["publication"].c.catalogue,
    "notification": literal_column("''"),
}
"""Where a record is: at a queue, a storage or a catalogue, or in a share."""

_e, _m = events.c, meanings.c
_ENDED_JOBS = (
    select(_e.records)
    .join(meanings, _m.id == _e.meaning)
    .where(
        _e.id > select(func.coalesce(func.max(_e.id), 0) - MOST_EVENTS).scalar_subquery(),
        _m.kind == "job",
        _m.target.in_([str(state) for state in ENDED["job"]]),
    )
    .order_by(_e.id.desc())
    .limit(MOST_PAST)
)


class StuckQueries:
    """Reads for the rule about stuck records (``model/rules/stuck.py``)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def staying(self, now: float) -> list[StayingRecord]:
        """Return the oldest live records that have been in their state for longer than its floor."""
        return self._database.read(lambda connection: list(_staying(connection, now)))

    def past(self) -> list[Stay]:
        """Return how long the newest ended records of each kind were in each state."""
        return self._database.read(lambda connection: list(_past(connection)))


def _staying(connection: Connection, now: float) -> Iterator[StayingRecord]:
    for (kind, state), expected in EXPECTED.items():
        table = RECORDS[kind]
        in_state = job_rows.is_in(state) if kind == "job" else is_state(table, state)
        query = (
            select(table.c.id, _PLACES[kind], table.c.since, table.c.error)
            .where(in_state, table.c.since < bindparam("before"))
            .order_by(table.c.since)
            .limit(MOST_LIVE)
        )
        if kind == "task":
            query = query.where(table.c.held == "")
        for id_, place, since, error in connection.execute(query, {"before": now - expected.floor}):
            yield StayingRecord(kind=kind, state=state, place=place, id=id_, since=since, error=error)


def _past(connection: Connection) -> Iterator[Stay]:
    for kind in dict.fromkeys(kind for kind, _ in EXPECTED):
        rows = _newest_ended(connection, kind)
        lives = history.events(connection, [row[1] for row in rows])
        for (place, _), life in zip(rows, lives, strict=True):
            yield from _stays(kind, place, life)


def _newest_ended(connection: Connection, kind: Kind) -> Sequence[tuple[str, str]]:
    """Return place and history of the newest ended records of a kind."""
    table = RECORDS[kind]
    query = select(_PLACES[kind], table.c.history)
    if kind == "job":
        texts = connection.execute(_ENDED_JOBS).scalars().all()
        ids = list(islice(dict.fromkeys(id_ for text in texts for id_ in unpacked(text)), MOST_PAST))
        return _rows(connection.execute(query.where(among(_j.id, "ids")), {"ids": ids})) if ids else ()
    newest = table.c.id if kind == "task" else table.c.since
    rows: list[tuple[str, str]] = []
    for state in ENDED[kind]:
        ended = query.where(is_state(table, state)).order_by(newest.desc()).limit(MOST_PAST)
        rows += _rows(connection.execute(ended))
    return rows


def _rows(rows: Iterable[Any]) -> list[tuple[str, str]]:
    return [(place, text) for place, text in rows]


def _stays(kind: Kind, place: str, life: Sequence[history.EventView]) -> Iterator[Stay]:
    for entered, leaving in pairwise(life):
        state = entered.target
        # If entries in between are missing, the time when it left the state is unknown.
        if (
            state != history.UNKNOWN
            and (kind, state) in EXPECTED
            and leaving.source == state
            and not leaving.cause.startswith(history.LEFT_OUT)
        ):
            yield Stay(kind=kind, state=state, place=place, seconds=max(0.0, leaving.time - entered.time))
