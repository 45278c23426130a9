"""Lists of a task of 100,000 jobs: what the first and the last page cost, by number and sorted."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, text

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.states import JobState
from pilotage.store import JobPage, JobSort, Store

from . import house, stored_jobs

JOBS = 100_000
ROWS = 50
TIMES = 7

_ONE_TASK = (
    "UPDATE jobs SET task = 1, wall_seconds = (id * 7919) % 3600,"
    " state = CASE WHEN id % 10 = 0 THEN 'failed' WHEN id % 10 < 4 THEN 'activated' ELSE 'finished' END"
)
_LISTS: tuple[tuple[str, JobSort, JobState | None], ...] = (
    ("id", "id", None),
    ("failed", "id", JobState.FAILED),
    ("run", "run", None),
)


def figures() -> dict[str, float]:
    """Measure both databases."""
    found: dict[str, float] = {}
    for database in ("sqlite", "postgresql"):
        with TemporaryDirectory() as folder, house.store(database, Path(folder)) as url:
            store = Store.open(url)
            try:
                found |= {f"lists_{database}_{name}": value for name, value in _of(store).items()}
            finally:
                store.close()
    return found


def _of(store: Store) -> dict[str, float]:
    stored_jobs.fill(store, JOBS)
    store.database.write(_to_one_task)
    stored_jobs.analyze(store)
    found: dict[str, float] = {}
    for name, sort, state in _LISTS:
        first, last = _ends(store, sort, state)
        found |= {f"first_by_{name}_ms": first, f"last_by_{name}_ms": last}
    return found


def _to_one_task(connection: Connection) -> None:
    connection.execute(text(_ONE_TASK))
    stored_jobs.count_again(connection, (JOBS_BY_TASK, "jobs", "task", "''"))


def _ends(store: Store, sort: JobSort, state: JobState | None) -> tuple[float, float]:
    """Return what the first and the last page take, in ms."""
    now = time.time()

    def read(after: str, limit: int = ROWS) -> str:
        return store.job_lists.page(1, JobPage(sort=sort, state=state, limit=limit, after=after), now).next

    total = store.job_lists.page(1, JobPage(state=state, limit=1), now).total or 0
    last = read("", total - ROWS)
    return _milliseconds(lambda: read("")), _milliseconds(lambda: read(last))


def _milliseconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return median(taken) * 1000
