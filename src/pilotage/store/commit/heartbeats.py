"""Heartbeats of pilots that report no change: one transaction for all that come together."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import and_, func, or_, select

from pilotage.model.records.counters import JOBS_BY_QUEUE, PILOTS_BY_QUEUE
from pilotage.model.records.states import AT_A_PILOT, LIVE_PILOTS, JobState, PilotState
from pilotage.store.database import arrays
from pilotage.store.database.engine import Database
from pilotage.store.jobs.counters import counts
from pilotage.store.pilots.held_jobs import ATTEMPTS_HERE, by_pilot
from pilotage.store.queues.last_seen import REPORTED_AFTER

if TYPE_CHECKING:
    import sqlite3

_c = counts.c
_LIVE = (
    select(_c.counter, func.sum(_c.count))
    .where(
        or_(
            and_(_c.counter == PILOTS_BY_QUEUE, _c.state.in_([str(state) for state in LIVE_PILOTS])),
            and_(_c.counter == JOBS_BY_QUEUE, _c.state.in_([str(state) for state in AT_A_PILOT])),
        )
    )
    .group_by(_c.counter)
)
_WAITING = select(func.coalesce(func.sum(_c.count), 0)).where(
    _c.counter == JOBS_BY_QUEUE, _c.state == str(JobState.ACTIVATED)
)
_AT_A_PILOT = ", ".join(f"'{state}'" for state in AT_A_PILOT)

# A pilot or a queue that another transaction writes must not hold up the others. Nor can two servers with the
# same queues then wait for each other.
_BEAT = f"""
WITH alive AS (
  UPDATE pilots SET heartbeat = %(time)s WHERE id IN (
    SELECT id FROM pilots WHERE id = ANY (%(pilots)s::BIGINT[]) AND state = '{PilotState.RUNNING}'
    FOR NO KEY UPDATE SKIP LOCKED
  ) RETURNING id, queue
), reported AS (
  UPDATE queue_reports SET last_pilot = %(time)s WHERE queue IN (
    SELECT queue FROM queue_reports
    WHERE queue IN (SELECT queue FROM alive) AND coalesce(last_pilot, 0) < %(time)s - {REPORTED_AFTER}
    FOR UPDATE SKIP LOCKED
  )
)
SELECT alive.id, jobs.id, jobs.attempt
FROM alive LEFT JOIN jobs ON jobs.pilot = alive.id AND jobs.state IN ({_AT_A_PILOT})"""

# Search by number, not by state: most pilots have the same state. The sign keeps the planner off its index.
_ALIVE = f"""
UPDATE pilots SET heartbeat = ?
WHERE id IN (SELECT value FROM json_each(?)) AND +state = '{PilotState.RUNNING}' RETURNING id, queue"""
_REPORTED = f"""
UPDATE queue_reports SET last_pilot = ? WHERE queue = ? AND coalesce(last_pilot, 0) < ? - {REPORTED_AFTER}"""
_HELD = ATTEMPTS_HERE.format(pilots="?")


class Heartbeats:
    """Records calls of pilots."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def beat(self, pilots: Sequence[int], time: float) -> dict[int, set[tuple[int, int]]]:
        """Record calls of running pilots. Return their attempts (job, attempt).

        It leaves out, and records nothing of, pilots that do not run, or that PostgreSQL is writing now.
        """
        if not pilots:
            return {}
        if not self._database.is_postgresql:
            return self._database.write_directly(lambda driver: _beat(driver, pilots, time))
        attempts: dict[int, set[tuple[int, int]]] = {}
        values = {"time": time, "pilots": arrays.array(pilots)}
        for pilot, job, attempt in self._database.run(_BEAT, values):
            # A pilot without jobs gives a row without a job.
            attempts.setdefault(pilot, set()).update([(job, attempt)] if job is not None else ())
        return attempts

    def live(self, queues: Sequence[str] | None = None) -> tuple[int, int]:
        """Count the live pilots of some queues or all, and the jobs that they have."""
        query = _LIVE if queues is None else _LIVE.where(_c.first.in_(queues))
        rows = self._database.read(lambda connection: connection.execute(query).all())
        counted: dict[str, int] = {counter: int(count) for counter, count in rows}
        return counted.get(PILOTS_BY_QUEUE, 0), counted.get(JOBS_BY_QUEUE, 0)

    def waiting(self, queues: Sequence[str]) -> int:
        """Count the jobs that wait for a pilot at some queues."""
        query = _WAITING.where(_c.first.in_(queues))
        return int(self._database.read(lambda connection: connection.execute(query).scalar_one()))


def _beat(
    driver: "sqlite3.Connection", pilots: Sequence[int], time: float
) -> dict[int, set[tuple[int, int]]]:
    alive = driver.execute(_ALIVE, (time, json.dumps(pilots))).fetchall()
    for queue in dict.fromkeys(queue for _, queue in alive):
        driver.execute(_REPORTED, (time, queue, time))
    attempts: dict[int, set[tuple[int, int]]] = {pilot: set() for pilot, _ in alive}
    return attempts | by_pilot(driver.execute(_HELD, (json.dumps(list(attempts)),)))
