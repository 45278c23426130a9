"""Measurements of all processes, added up, and the store's numbers for monitoring."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Double, String, Table, bindparam, func, select

from pilotage.model.records.counters import JOBS_BY_QUEUE, PILOTS_BY_QUEUE, TRANSFERS_BY_LINK
from pilotage.model.records.states import JobState, PilotState
from pilotage.store.database import bulk
from pilotage.store.database.columns import is_state, metadata
from pilotage.store.database.dialects import dialect_of, replaced, upsert
from pilotage.store.database.engine import Database
from pilotage.store.database.measurements import MeasuredKey, Sums
from pilotage.store.database.rows import raw_rows
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.waiting import Waiting, tasks_waiting
from pilotage.store.people.notifications import is_unsent, notifications
from pilotage.store.pilots.table import pilots
from pilotage.store.queues.federations import federations
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import SpecCache

measurements = Table(
    "measurements",
    metadata,
    Column("name", String, primary_key=True),
    Column("labels", String, primary_key=True),
    Column("part", String, primary_key=True),
    Column("value", Double, nullable=False),
)

_m = measurements.c
_KEY = ("name", "labels", "part")
_ALL = select(_m.name, _m.labels, _m.part, _m.value)

LATEST = "latest"
"""The part that holds a moment, the latest that a process saw."""

_NOTE = upsert(
    measurements, _KEY, _m.keys(), replaced(["value"]), restriction="measurements.value < excluded.value"
)


def add_measurements(connection: Connection, sums: Sums, latest: Mapping[tuple[str, str], float]) -> None:
    """Add a process's sums to the table, and keep the latest moments."""
    rows = [(key.name, json.dumps(key.labels), key.part, float(value)) for key, value in sums.items()]
    bulk.add(connection, measurements, _KEY, "value", rows)
    if latest:
        moments = [
            {"name": name, "labels": json.dumps([label]), "part": LATEST, "value": moment}
            for (name, label), moment in sorted(latest.items())
        ]
        connection.execute(_NOTE, moments)


def read_measurements(connection: Connection) -> dict[MeasuredKey, float]:
    """Return all sums and moments."""
    return {
        MeasuredKey(name, tuple(json.loads(labels)), part): value
        for name, labels, part, value in raw_rows(connection, _ALL)
    }


_c, _n = counts.c, notifications.c
_SUMS = (
    select(_c.counter, _c.first, _c.second, _c.state, func.sum(_c.count))
    .where(_c.counter.in_([JOBS_BY_QUEUE, PILOTS_BY_QUEUE, TRANSFERS_BY_LINK]))
    .group_by(_c.counter, _c.first, _c.second, _c.state)
)
_UNSENT = select(func.count(), func.min(_n.created)).where(is_unsent)
_SILENT = (
    select(pilots.c.queue, func.count())
    .where(is_state(pilots, PilotState.RUNNING), pilots.c.heartbeat < bindparam("heard"))
    .group_by(pilots.c.queue)
)
_FIRST_FEDERATION = select(federations.c.time).order_by(federations.c.version).limit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCounts:
    """Numbers of records: ``jobs`` by queue, share and state, ``pilots`` by queue and state, ``transfers`` by
    source, destination, direction and state.

    ``oldest_unsent`` is when the oldest unsent notification was made, ``first_federation`` when the first
    federation was put in force (s since 1970 UTC; None if there is none). ``database_size`` is in bytes.
    ``measured`` has the measurements of all processes.
    """

    jobs: dict[tuple[str, ...], int]
    pilots: dict[tuple[str, ...], int]
    transfers: dict[tuple[str, ...], int]
    unsent_notifications: int
    oldest_unsent: float | None
    first_federation: float | None
    database_size: int
    measured: dict[MeasuredKey, float]


class MetricsQueries:
    """Reads sums for monitoring. None of them reads jobs one by one."""

    def __init__(self, database: Database, specs: SpecCache) -> None:
        self._database, self._specs = database, specs

    def counts(self) -> StoreCounts:
        """Return the numbers of records now."""

        def read(connection: Connection) -> StoreCounts:
            sums: dict[str, dict[tuple[str, ...], int]] = {
                name: {} for name in (JOBS_BY_QUEUE, PILOTS_BY_QUEUE, TRANSFERS_BY_LINK)
            }
            for counter, first, second, state, count in raw_rows(connection, _SUMS):
                key = (first, *(second.split(" ") if counter != PILOTS_BY_QUEUE else ()), state)
                sums[counter][key] = sums[counter].get(key, 0) + int(count)
            unsent, oldest = raw_rows(connection, _UNSENT)[0]
            size = connection.exec_driver_sql(dialect_of(connection).size).scalar_one()
            return StoreCounts(
                jobs=sums[JOBS_BY_QUEUE],
                pilots=sums[PILOTS_BY_QUEUE],
                transfers=sums[TRANSFERS_BY_LINK],
                unsent_notifications=int(unsent),
                oldest_unsent=oldest,
                first_federation=connection.execute(_FIRST_FEDERATION).scalar(),
                database_size=int(size),
                measured=read_measurements(connection),
            )

        return self._database.read(read)

    def silent_pilots(self, since: float) -> dict[tuple[str, ...], int]:
        """Count the running pilots without a call since a time (s since 1970 UTC), by queue."""
        rows = self._database.read(lambda connection: raw_rows(connection, _SILENT, heard=since))
        return {(queue,): int(count) for queue, count in rows}

    def pending(self) -> list[Waiting]:
        """Return the tasks with pending jobs. It steps through an index from task to task."""
        return self._database.read(
            lambda connection: tasks_waiting(RecordReader(connection, self._specs), JobState.PENDING)
        )
