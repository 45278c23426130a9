"""After the faults: what an operator does until nothing is live, or the time is over."""

import time
from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, text

from .system import System
from .work import Expectation

SETTLING = 600.0
"""Seconds after the last fault within which everything must end: a machine may be very busy."""

ENDED = ("finished", "failed", "cancelled")

_LIVE = """
SELECT (SELECT COUNT(*) FROM tasks WHERE state NOT IN ('finished', 'failed', 'cancelled'))
  + (SELECT COUNT(*) FROM pilots WHERE state IN ('created', 'submitted', 'running'))
  + (SELECT COUNT(*) FROM transfers WHERE state NOT IN ('done', 'failed', 'cancelled'))
  + (SELECT COUNT(*) FROM jobs WHERE state NOT IN ('finished', 'failed', 'cancelled', 'closed'))
  + (SELECT COUNT(*) FROM removals)
"""
_FAILED = "SELECT id, error FROM tasks WHERE state = 'failed' ORDER BY id"
_LIVE_TASKS = f"SELECT id, name, state, error FROM tasks WHERE state NOT IN {ENDED} ORDER BY id"
_LIVE_JOBS = (
    "SELECT state, queue, COUNT(*), MAX(error) FROM jobs WHERE task = :task"
    " AND state NOT IN ('finished', 'failed', 'cancelled', 'closed') GROUP BY 1, 2 ORDER BY 1, 2"
)


class Calm:
    """The end of a storm. ``said`` are tasks that failed by a fault and were retried, with their errors."""

    def __init__(self, system: System, expected: Mapping[int, Expectation]) -> None:
        self._system, self._expected = system, expected
        self.said: dict[int, str] = {}

    def wait(self, until: float) -> list[str]:
        """Act as an operator until nothing is live, at most until a moment of the steady clock.

        Returns what did not end.
        """
        engine = self._system.engine()
        try:
            while True:
                self._open_places()
                with engine.connect() as connection:
                    is_at_rest = not connection.execute(text(_LIVE)).scalar_one()
                    # What goes on now is live only for the next look.
                    if not self._retry(connection) and is_at_rest and not self._system.agents():
                        return []
                    if time.monotonic() > until:
                        slurm = self._system.real.slurm
                        told = slurm.states().splitlines() if slurm else []
                        return ["the system does not come to rest", *_left(connection), *told]
                time.sleep(0.5)
        finally:
            engine.dispose()

    def _open_places(self) -> None:
        """Open every place: a request to drain one that a frozen server held back may take effect late."""
        for one in self._system.call("GET", "/restrictions")["restrictions"]:
            self._system.call("DELETE", f"/restrictions/{one['kind']}/{one['name']}")
        if self._system.real.slurm:
            self._system.real.slurm.resume()

    def _retry(self, connection: Connection) -> bool:
        """Retry once each task that failed and should not: the storm was the cause, and it is over.

        Returns whether there was any.
        """
        new = {
            task: error
            for task, error in connection.execute(text(_FAILED))
            if task in self._expected and self._expected[task].state != "failed" and task not in self.said
        }
        for task in new:
            self._system.call("POST", f"/tasks/{task}/retry", {})
        self.said |= new
        return bool(new)


def _left(connection: Connection) -> Iterator[str]:
    for task, name, state, error in connection.execute(text(_LIVE_TASKS)):
        yield f"task {task} ({name}) is {state}: {error or 'no error'}"
        for job_state, queue, count, last in connection.execute(text(_LIVE_JOBS), {"task": task}):
            where = f"at {queue}" if queue else "at no queue"
            yield f"of task {task}, {count} jobs are {job_state} {where}: {last or 'no error'}"
