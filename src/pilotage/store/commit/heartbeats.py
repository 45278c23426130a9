"""Heartbeats of pilots that report no change: one statement, independent of all others."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, or_, select

from pilotage.model.records.counters import JOBS_BY_QUEUE, PILOTS_BY_QUEUE
from pilotage.model.records.states import AT_A_PILOT, LIVE_PILOTS, JobState, PilotState
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

_BEAT = f"""
WITH alive AS (
  UPDATE pilots SET heartbeat = %(time)s
  WHERE id = %(pilot)s AND state = '{PilotState.RUNNING}' RETURNING queue
), reported AS (
  UPDATE queue_reports SET last_pilot = %(time)s FROM alive
  WHERE queue_reports.queue = alive.queue AND coalesce(last_pilot, 0) < %(time)s - {REPORTED_AFTER}
)
SELECT jobs.id, jobs.attempt
FROM alive LEFT JOIN jobs ON jobs.pilot = %(pilot)s AND jobs.state IN ({_AT_A_PILOT})"""

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

    def beat(self, pilot: int, time: float) -> set[tuple[int, int]] | None:
        """Record the call of a running pilot. Return its attempts (job, attempt).

        Return None, and record nothing, if it does not run yet or has ended.
        """
        if self._database.is_postgresql:
            rows = self._database.run(_BEAT, {"time": time, "pilot": pilot})
            return _attempts(rows) if rows else None

        return self._database.write_directly(lambda driver: _beat(driver, [pilot], time)).get(pilot)

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

    def beat_all(self, pilots: Sequence[int], time: float) -> dict[int, set[tuple[int, int]]]:
        """Like ``beat`` for many pilots, on SQLite in one transaction. Leave out pilots that do not run."""
        if not pilots:
            return {}
        if self._database.is_postgresql:
            beats = ((pilot, self.beat(pilot, time)) for pilot in pilots)
            return {pilot: attempts for pilot, attempts in beats if attempts is not None}
        return self._database.write_directly(lambda driver: _beat(driver, pilots, time))


def _beat(
    driver: "sqlite3.Connection", pilots: Sequence[int], time: float
) -> dict[int, set[tuple[int, int]]]:
    alive = driver.execute(_ALIVE, (time, json.dumps(pilots))).fetchall()
    for queue in dict.fromkeys(queue for _, queue in alive):
        driver.execute(_REPORTED, (time, queue, time))
    attempts: dict[int, set[tuple[int, int]]] = {pilot: set() for pilot, _ in alive}
    return attempts | by_pilot(driver.execute(_HELD, (json.dumps(list(attempts)),)))


def _attempts(rows: Sequence[Any]) -> set[tuple[int, int]]:
    # A pilot without jobs gives a row without a job. No row at all means that it does not run.
    return {(job, attempt) for job, attempt in rows if job is not None}
