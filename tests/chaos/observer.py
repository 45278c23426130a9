"""An observer of its own: it counts in the tables of records whether any limit is passed, all the time.

It knows nothing of counters, claims and advertisements, by which Pilotage keeps the limits.
"""

import threading
from collections import Counter

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from pilotage.model.records.states import (
    COUNTED_JOBS,
    JOBS_AT_A_SITE,
    LIVE_PILOTS,
    LIVE_TASKS,
    SUBMITTING_JOBS,
    WAITING_PILOTS,
    JobState,
    State,
    TransferState,
)

from .system import (
    DELIVERIES,
    LINK_SLOTS,
    LIVE_JOBS,
    MAX_JOBS,
    MAX_PILOTS,
    MAX_SUBMITTING,
    MOST_EMERGENCY,
    TRANSFER_SLOTS,
    System,
)

EVERY = 0.1
"""Seconds between two looks."""


BUSY = (JobState.SENT, JobState.STARTING, JobState.RUNNING, JobState.HOLDING, JobState.TRANSFERRING)
"""States of jobs that a fault at their site affects."""


def _states(*states: State) -> str:
    return ", ".join(f"'{state}'" for state in states)


# What was borrowed went straight into a pilot that runs: it was never on its way.
_JOBS = f"""
SELECT replace(queue, '-queue', ''), state,
  EXISTS (SELECT 1 FROM borrowings WHERE job = jobs.id AND attempt = jobs.attempt), COUNT(*)
FROM jobs WHERE state IN ({_states(*JOBS_AT_A_SITE)}) GROUP BY 1, 2, 3
"""
# What a fault at a site affects.
_BUSY = f"""
SELECT id, replace(queue, '-queue', '') FROM jobs WHERE queue IS NOT NULL AND state IN ({_states(*BUSY)})
"""
# A test pilot goes to its queue whatever is there.
_PILOTS = f"""
SELECT site, queue, state, COUNT(*), SUM(slots) FROM pilots
WHERE state IN ({_states(*LIVE_PILOTS)}) AND reason NOT LIKE 'test of its queue%' GROUP BY 1, 2, 3
"""
_DELIVERIES = f"""
SELECT source, destination, COUNT(*) FROM transfers WHERE state = '{TransferState.DELIVERING}' GROUP BY 1, 2
"""
# A merge job needs no room: the end of its task waits for it alone.
_LIVE = f"SELECT COUNT(*) FROM jobs WHERE state IN ({_states(*COUNTED_JOBS)}) AND kind <> 'merge'"
_OPEN = f"SELECT COUNT(*) FROM tasks WHERE state IN ({_states(*LIVE_TASKS)})"

LIMITS = {
    "jobs": MAX_JOBS,
    "submitting": MAX_SUBMITTING,
    "slots of pilots": MAX_JOBS,
    "waiting pilots": MAX_SUBMITTING,
    "pilots": MAX_PILOTS,
    "deliveries over the link": LINK_SLOTS,
    "deliveries": DELIVERIES + MOST_EMERGENCY,
    "live jobs": LIVE_JOBS,
    **{f"deliveries at {storage}": slots for storage, slots in TRANSFER_SLOTS.items()},
}
"""The limit of each thing that is counted."""


def counted(connection: Connection) -> Counter[tuple[str, str]]:
    """Return how many of each thing there are: by what it is, and where."""
    found: Counter[tuple[str, str]] = Counter()
    for site, state, borrowed, count in connection.execute(text(_JOBS)):
        found["jobs", site] += count
        on_its_way = state in SUBMITTING_JOBS and not (borrowed and state in ("sent", "starting"))
        found["submitting", site] += count if on_its_way else 0
    for site, queue, state, count, slots in connection.execute(text(_PILOTS)):
        found["slots of pilots", site] += slots
        found["pilots", queue] += count
        found["waiting pilots", site] += count if state in WAITING_PILOTS else 0
    for source, destination, count in connection.execute(text(_DELIVERIES)):
        found["deliveries", "all"] += count
        if source != destination:
            found["deliveries over the link", f"{source} to {destination}"] += count
        for storage in {source, destination}:
            found[f"deliveries at {storage}", storage] += count
    found["open tasks", "the user"] += connection.execute(text(_OPEN)).scalar_one()
    found["live jobs", "the user"] += connection.execute(text(_LIVE)).scalar_one()
    return found


class Observer:
    """Looks at the tables from a thread of its own.

    ``most`` keeps the highest counts, ``busy`` the site of each job that is at one.
    """

    def __init__(self, system: System) -> None:
        self._engine = system.engine()
        self.most: Counter[tuple[str, str]] = Counter()
        self.most_recent: Counter[tuple[str, str]] = Counter()
        self.busy: dict[int, str] = {}
        self.looks = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._done.set()
        self._thread.join()
        self._engine.dispose()

    def faults(self) -> list[str]:
        """Return each limit that was passed."""
        return [
            f"{where} had {count} {what}; the limit is {LIMITS[what]}"
            for (what, where), count in sorted(self.most.items())
            if what in LIMITS and count > LIMITS[what]
        ]

    def _run(self) -> None:
        while not self._done.wait(EVERY):
            try:
                with self._engine.connect() as connection:
                    found = counted(connection)
                    self.busy = dict(connection.execute(text(_BUSY)).tuples().all())
            except DBAPIError:
                continue  # the database is a victim itself, and its tables may be missing
            self.most |= found
            self.most_recent = found
            self.looks += 1
