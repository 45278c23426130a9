"""What a job leaves in the store, by table: its files, transfers, logs, reasons, histories and events.

The real steps run simulated jobs on both databases. Each reads a file that has to come from another site,
writes an output that goes to the nucleus, and leaves three logs. So every table has what it has in service.
``JOBS`` of the environment says how many jobs (3,000).
"""

import os
import random
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select

from pilotage.model.records.federation import ComputingElement, Federation
from pilotage.model.records.logs import KeptLog, LogKey, Point
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.reading import Case, virtual
from pilotage.simulation.scenario import GeneratedWork, Scenario
from pilotage.simulation.simulation import Simulation
from pilotage.simulation.submissions import submissions
from pilotage.store import Store
from pilotage.store.database.columns import metadata
from pilotage.store.jobs.logs import usage_log

from . import house, stored_jobs
from .simulating import bench_federation

JOBS, PER_TASK, SITES = int(os.environ.get("JOBS") or 3000), 100, 40
OUTPUT = (
    "{time} INFO event {event}: {tracks} tracks, chi2/ndf {chi:.3f}\n"
    "{time} INFO calibration constants of run {run} are valid\n"
)
LINES = 30
"""Lines of a job's standard output, which the agent compresses."""
POINTS = 30
"""Points of the time line of its use."""


def figures() -> dict[str, float]:
    """``job_bytes_DATABASE``, and ``..._TABLE`` for each table and ``..._of_INDEX`` for each index with a
    byte or more."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="pilotage-bench-") as directory:
        place = Path(directory)
        place.chmod(0o755)
        with house.store("sqlite", place) as url:
            used = Store.open(url)
            empty = stored_jobs.sizes(used)
            jobs = _run(used)
            write_logs(used, range(1, jobs + 1), used.clock())
            found |= _grown("sqlite", empty, used, jobs)
        with house.store("postgresql", place) as url:
            copy = Store.open(url)
            empty = stored_jobs.sizes(copy)
            copied(used, copy)
            found |= _grown("postgresql", empty, copy, jobs)
            copy.close()
        used.close()
    return found


def _grown(name: str, empty: dict[str, int], store: Store, jobs: int) -> dict[str, float]:
    grown = {
        table: (size - empty[table]) / jobs
        for table, size in stored_jobs.sizes(store).items()
        if size - empty[table] >= jobs
    }
    return {f"job_bytes_{name}": sum(grown.values())} | {
        f"job_bytes_{name}_{table}": size for table, size in grown.items()
    }


def copied(source: Store, target: Store) -> None:
    """Copy all rows of a store into another, empty one, which may be of the other kind."""

    def write(connection: Connection) -> None:
        for table in metadata.sorted_tables:
            connection.execute(delete(table))
            if rows := source.database.read(lambda one, table=table: one.execute(select(table)).all()):  # type: ignore[misc]
                connection.execute(insert(table), [dict(row._mapping) for row in rows])

    target.database.write(write)


def _run(store: Store) -> int:
    work = GeneratedWork(
        tasks=JOBS // PER_TASK,
        jobs=PER_TASK,
        jobs_spread=0,
        arrivals=20_000,
        file_size=500,
        output_size=50,
        nucleus="site-0",
        io_intensity=100,
    )
    scenario = Scenario(name="size", federation="", tick=60, generated=work, estimate_spread=0.5)
    case = Case(scenario, virtual(staging_federation(SITES), scenario))
    simulation = Simulation(case.federation, scenario, 1, store=store)
    given = submissions(case, 1)

    def submit(submission: SimulatedTask) -> None:
        simulation.submit(submission)

    for one in given:
        simulation.clock.after(one.at, partial(submit, one))
    simulation.run(2e6, until=lambda: simulation.has_ended(len(given)))
    simulation.runtime.close()
    return store.database.read(_jobs)


def _jobs(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT count(*) FROM jobs WHERE ended IS NOT NULL").scalar_one())


def write_logs(store: Store, jobs: range, now: float) -> None:
    """Keep logs as agents send them: two streams, compressed, and the use of memory and disk over time."""
    dice = random.Random(jobs.start)
    for job in jobs:
        key = LogKey(kind="job", record=job, attempt=1)
        text = "".join(_lines(dice)).encode()
        streams = (("stdout", text), ("stderr", b"WARNING: no display\n"))
        kept = [
            KeptLog(key=key, stream=stream, size=len(data), head=len(data), data=zlib.compress(data))  # type: ignore[arg-type]
            for stream, data in streams
        ]
        kept.append(usage_log(key, [_point(at, dice) for at in range(POINTS)]))
        store.logs.put([(one, stored_jobs.OWNER) for one in kept], now)


def _point(at: int, dice: random.Random) -> Point:
    """What an event loop uses: a core, steady memory, and reads and writes that go on."""
    memory = 1500 + dice.randrange(40)
    return (
        at * 60.0,
        at * 57.0 + dice.randrange(3),
        memory,
        at * 9000.0 + dice.randrange(900),
        at * 90.0,
        0,
        0,
    )


def _lines(dice: random.Random) -> Iterator[str]:
    for event in range(LINES // 2):
        yield OUTPUT.format(
            time=f"2026-11-27 04:{event:02}:{dice.randrange(60):02}",
            event=event,
            tracks=dice.randrange(400),
            chi=dice.random(),
            run=77,
        )


def staging_federation(sites: int) -> Federation:
    """Return sites that read no file from afar, and a nucleus."""
    found = bench_federation(sites, ComputingElement(max_pilots=10, pilot_slots=8))
    return replace(
        found,
        sites=(replace(found.sites[0], nucleus=True), *found.sites[1:]),
        storages=tuple(replace(one, remote_reads=False) for one in found.storages),
    )
