"""Lists of a task of 100,000 jobs: what the first and the last page cost, by number and sorted."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from sqlalchemy import text

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.states import JobState
from pilotage.store import JobPage, JobSort, Store

from . import house, stored_jobs

JOBS = 100_000
ROWS = 50
TIMES = 7

_ONE_TASK = (
    "UPDATE jobs SET task = 1, wall_seconds = (id * 7919) % 3600,"
    " state = CASE WHEN id % 10 = 0 THEN 'failed' WHEN id % 10 < 4 THEN 'activated' ELSE 'finished' END",
    "DELETE FROM counters WHERE counter = 'jobs_by_task'",
)
_LISTS: tuple[tuple[str, JobSort, JobState | None], ...] = (
    ("id", "id", None),
    ("failed", "id", JobState.FAILED),
    ("run", "run", None),
)
_COUNTED = (
    "INSERT INTO counters (counter, first, second, state, count)"
    f" SELECT '{JOBS_BY_TASK}', '1', '', state, count(*) FROM jobs GROUP BY state"
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
    store.database.write(lambda one: [one.execute(text(sql)) for sql in (*_ONE_TASK, _COUNTED)])
    if store.database.is_postgresql:
        with store.database.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("VACUUM (ANALYZE)")
    found: dict[str, float] = {}
    for name, sort, state in _LISTS:
        first, last = _ends(store, sort, state)
        found |= {f"first_by_{name}_ms": first, f"last_by_{name}_ms": last}
    return found


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
