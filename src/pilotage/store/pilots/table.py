"""Pilots: table and rows, live pilots, pilots with ended batch jobs, and waits in batch systems."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Double, Index, func, literal_column, select

from pilotage.model.records.states import AT_A_PILOT, LIVE_PILOTS, PilotState
from pilotage.model.records.work import Pilot
from pilotage.store.database.columns import is_state, partial_index
from pilotage.store.database.engine import Database
from pilotage.store.database.record_columns import (
    SETTABLE,
    changer,
    maker,
    read_columns,
    record_table,
    settable_fields,
)
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.history.history import events
from pilotage.store.jobs.table import jobs

pilots = record_table(
    "pilots",
    Pilot,
    Column("ended", Double, info=SETTABLE),
    Index("pilots_by_state", "state", "since", "id"),
    Index("pilots_by_queue", "queue", "id"),
)

is_lacking = pilots.c.lacks != literal_column("''")
"""Few pilots find that their nodes lack something."""
partial_index("pilots_lacking", pilots.c.since, pilots.c.id, condition=is_lacking)

PILOT_COLUMNS = read_columns(pilots, Pilot)

# Loops read all live pilots again and again, and few have changed: convert a row once.
pilot = lru_cache(maxsize=20_000)(maker(Pilot))
"""Makes a pilot of a row of ``PILOT_COLUMNS``."""


_p = pilots.c
_CHANGING = ("state", "since", *settable_fields(Pilot))
_LIVE = select(_p.id, *(_p[name] for name in _CHANGING)).where(is_state(pilots, *LIVE_PILOTS))
_WHOLE = select(*PILOT_COLUMNS).where(among(_p.id, "ids"))

_changed = changer(Pilot, _CHANGING)
Row = tuple[Any, ...]


class LivePilots:
    """Reads the pilots of one store that have not ended. Safe to use from many threads."""

    def __init__(self) -> None:
        # Records made from rows. A reader replaces the whole, so other readers never see half of it.
        self._cache: Mapping[int, tuple[Row, Pilot]] = {}

    def read(self, connection: Connection) -> tuple[Pilot, ...]:
        """Return all live pilots by number."""
        former = self._cache
        # Sort here: SQLite is slower.
        rows = sorted(raw_rows(connection, _LIVE))
        new = [row[0] for row in rows if row[0] not in former]
        whole = {row[0]: pilot(row) for row in raw_rows(connection, _WHOLE, ids=new)} if new else {}
        current: dict[int, tuple[Row, Pilot]] = {}
        for row in rows:
            before = former.get(row[0])
            if before is None:
                current[row[0]] = (row, whole[row[0]])
            else:
                current[row[0]] = before if before[0] == row else (row, _changed(before[1], row[1:]))
        self._cache = current
        return tuple([record for _, record in current.values()])


_j = jobs.c
_ENDED = (
    select(_p.id, _p.queue, _p.ended_there_since, _p.end_doubt, _p.error, func.count(_j.id))
    .select_from(pilots)
    .join(jobs, (_j.pilot == _p.id) & is_state(jobs, *AT_A_PILOT))
    .where(is_state(pilots, PilotState.RUNNING), _p.ended_there_since.is_not(None))
    .group_by(_p.id)
    .order_by(_p.ended_there_since, _p.id)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPilot:
    """A pilot with ``jobs``, and the times (s since 1970) when its batch job ended and when that is sure."""

    pilot: int
    queue: str
    jobs: int
    ended: float
    sure_at: float
    reason: str


def ended_pilots(connection: Connection) -> list[EndedPilot]:
    """Return running pilots with jobs and an ended batch job; the batch job that ended first comes first."""
    return [
        EndedPilot(pilot=pilot, queue=queue, jobs=jobs, ended=ended, sure_at=ended + doubt, reason=reason)
        for pilot, queue, ended, doubt, reason, jobs in raw_rows(connection, _ENDED)
    ]


class PilotWaits:
    """Reads how long pilots waited in batch systems before they called home."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def since(self, time: float, limit: int) -> dict[str, list[float]]:
        """Return the waits in s of the newest pilots recorded after a time (s since 1970), by queue."""
        query = (
            select(_p.queue, _p.created, _p.history)
            .where(_p.created > time, _p.heartbeat.is_not(None))
            .order_by(_p.id.desc())
            .limit(limit)
        )

        def read(connection: Connection) -> dict[str, list[float]]:
            waits: defaultdict[str, list[float]] = defaultdict(list)
            rows = connection.execute(query).all()
            for row, history in zip(rows, events(connection, [row.history for row in rows]), strict=True):
                started = [event.time for event in history if event.target is PilotState.RUNNING]
                if started:
                    waits[row.queue].append(max(0.0, started[0] - row.created))
            return dict(waits)

        return self._database.read(read)
