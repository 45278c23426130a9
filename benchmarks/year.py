"""A year in virtual time on each database: what its store, its passes and a process that reads it come to.

The real steps run jobs as those of ``store_size``, which leave logs, evenly over the year. Each day the loops
that one server runs do their work: they add up use, delete old events, and archive what ended 90 days before.
PostgreSQL vacuums each week. ``YEAR`` of the environment is the number of jobs (2,000; 300,000 take hours).
"""

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from math import exp
from pathlib import Path

import psutil
from sqlalchemy import Connection

from pilotage.flow.loops.archiving import archiving
from pilotage.flow.loops.sole import SoleLoop, forgetting_events, recording_use
from pilotage.flow.steps import STEPS
from pilotage.model.values.durations import DAY, HOUR
from pilotage.ports.presence import Unnamed
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.policies import KNOWN, steps_of
from pilotage.simulation.reading import Case, virtual
from pilotage.simulation.scenario import GeneratedWork, Scenario
from pilotage.simulation.simulation import BEGIN, Simulation
from pilotage.simulation.submissions import submissions
from pilotage.store import Pass, Store
from pilotage.store.database.inspection import inspected

from . import house, stored_jobs
from .scale import pass_seconds
from .store_size import staging_federation, write_logs

JOBS = int(os.environ.get("YEAR") or 2000)
SITES = 10
MANY = 3_000_000
"""Jobs of the year that is extrapolated."""

DAYS, FIRST, VACUUMED = 365, 100, 7
"""Days of the year, the day of the first figures, and the days between two vacuums."""
ARCHIVED_AFTER, EVENTS_KEPT, AUDIT_KEPT = 90, 7, 365
"""Days that records, events and the audit stay, as a server has them."""
MEDIAN, SPREAD = 30, 1.0
"""The median number of jobs of a task, and the spread of its logarithm."""
SAMPLED = 6 * 3600.0
"""Seconds between two samples of use."""
PASSES = 5
"""Passes of a step, of which the fastest counts: other programs only make them slower."""


class _Server(Unnamed):
    """The one server that runs the loops."""

    name = "year"


def figures() -> dict[str, float]:
    """``year_DATABASE_WHAT_DAY`` for store, memory and passes, what each table came to, and ``..._3m_gb``."""
    found: dict[str, float] = {}
    databases: tuple[house.Database, ...] = ("sqlite", "postgresql")
    for database in databases:
        place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
        place.chmod(0o755)
        try:
            with house.store(database, place) as url:
                found |= {f"year_{database}_{name}": value for name, value in _Year(url, place).run()}
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return found


class _Year:
    """A year of one store."""

    def __init__(self, url: str, place: Path) -> None:
        self._url, self._now = url, BEGIN
        self._store = Store.open(url, clock=lambda: self._now)
        self._base = 0
        scenario = Scenario(
            name="year", federation="", tick=3600, period=SAMPLED, generated=_work(), estimate_spread=0.5
        )
        case = Case(scenario, virtual(staging_federation(SITES), scenario))
        self._simulation = Simulation(case.federation, scenario, 1, store=self._store)
        for task in submissions(case, 1):
            self._simulation.clock.after(task.at, partial(self._submit, task))
        ages = ARCHIVED_AFTER * DAY, AUDIT_KEPT * DAY
        self._use = recording_use(self._store, _Server())
        self._daily = (
            forgetting_events(self._store, _Server(), EVENTS_KEPT * DAY, AUDIT_KEPT * DAY, archives=True),
            archiving(self._store, _Server(), place / "archive", *ages),
        )
        self._logged = 0

    def run(self) -> Iterator[tuple[str, float]]:
        """Let the year pass, and yield the figures."""
        for day in range(1, DAYS + 1):
            for _ in range(int(DAY / SAMPLED)):
                self._simulation.run(SAMPLED)
                self._now = self._simulation.clock()
                self._do(self._use)
            self._maintain(day)
            if day == 1:
                # The tables and their first pages take this, however many jobs there are.
                self._base = self._bytes()
            if day in (FIRST, DAYS):
                yield from ((f"{name}_day_{day}", value) for name, value in self._measured())
        for table, size in self._store.database.read(stored_jobs.used).items():
            if size > 0.01 * self._bytes():
                yield f"mb_of_{table}", size / 1e6
        yield "3m_gb", (self._bytes() - self._base) / self._logged * MANY / 1e9
        self._simulation.runtime.close()
        self._store.close()

    def _submit(self, task: SimulatedTask) -> None:
        self._simulation.submit(task)

    def _maintain(self, day: int) -> None:
        """Do a day's work of the loops that one server runs, of agents that send logs, and of PostgreSQL."""
        last = self._store.database.read(_last_job)
        write_logs(self._store, range(self._logged + 1, last + 1), self._now)
        self._logged = last
        self._store.log_retention.prune(self._now, self._simulation.federation.logs)
        self._store.past.add_attempts()
        for loop in self._daily:
            self._do(loop)
        if day % VACUUMED == 0 or day in (1, FIRST, DAYS):
            stored_jobs.analyze(self._store)

    def _do(self, loop: SoleLoop) -> None:
        """Do a loop's work without its pauses."""
        self._store.leases.take(loop.name, _Server.name, self._now, lambda _: True)
        loop._work(lambda _: False)
        self._store.leases.give_back(loop.name, _Server.name)

    def _measured(self) -> Iterator[tuple[str, float]]:
        yield "store_mb", self._bytes() / 1e6
        runtime = self._simulation.runtime
        fastest = (
            # An hour later all is due that loops do once an hour.
            min(pass_seconds(runtime, step, time.perf_counter, HOUR + 1) for _ in range(PASSES))
            for step in steps_of(KNOWN["pilotage"])
        )
        yield "passes_ms", 1000 * sum(fastest)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            yield "memory_mib", pool.apply(_memory, (self._url, self._now))

    def _bytes(self) -> int:
        return self._store.database.read(inspected).bytes


def _work() -> GeneratedWork:
    return GeneratedWork(
        tasks=max(1, round(JOBS / (MEDIAN * exp(SPREAD**2 / 2)))),
        jobs=MEDIAN,
        jobs_spread=SPREAD,
        arrivals=(DAYS - 2) * DAY,
        file_size=500,
        output_size=50,
        nucleus="site-0",
        io_intensity=100,
    )


def _last_job(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT coalesce(max(id), 0) FROM jobs").scalar_one())


def _memory(url: str, now: float) -> float:
    """Resident memory in MiB of a process that has read the world of each step."""
    store = Store.open(url)
    limit = store.federation().loops.batch
    for step in STEPS:
        if step.has_loop:
            store.snapshots.read(Pass(now, 1, limit), step.plan.parts)
    store.close()
    return float(psutil.Process().memory_info().rss) / 2**20
