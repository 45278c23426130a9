"""What a job leaves in the store, by table: its files, transfers, logs, reasons, histories and events.

The real steps run simulated jobs on both databases. Each reads a file that has to come from another site,
writes an output that goes to the nucleus, and leaves three logs. So every table has what it has in service.
``JOBS`` of the environment says how many jobs (3,000).
"""

import os
import random
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from sqlalchemy import Connection

from pilotage.model.records.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.model.records.logs import KeptLog, LogKey, Point
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.reading import Case, virtual
from pilotage.simulation.scenario import GeneratedWork, Scenario
from pilotage.simulation.simulation import Simulation
from pilotage.simulation.submissions import submissions
from pilotage.store import Store
from pilotage.store.tables.logs import usage_log

from . import house, stored_jobs

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
    databases: tuple[house.Database, ...] = ("sqlite", "postgresql")
    for database in databases:
        with used(database) as (_, sizes):
            found[f"job_bytes_{database}"] = sum(sizes.values())
            found |= {f"job_bytes_{database}_{name}": size for name, size in sizes.items() if size >= 1}
    return found


@contextmanager
def used(database: house.Database) -> Iterator[tuple[Store, dict[str, float]]]:
    """Yield a store, and by how many bytes each table and index grew for each job that ended in it."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with house.store(database, place) as url:
            store = Store.open(url)
            empty = stored_jobs.sizes(store)
            jobs = _run(store)
            _write_logs(store, jobs)
            yield (
                store,
                {name: (size - empty[name]) / jobs for name, size in stored_jobs.sizes(store).items()},
            )
            store.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


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
    case = Case(scenario, virtual(_federation(), scenario))
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


def _write_logs(store: Store, jobs: int) -> None:
    """Keep logs as agents send them: two streams, compressed, and the use of memory and disk over time."""
    dice, now = random.Random(1), store.clock()
    for job in range(1, jobs + 1):
        key = LogKey(kind="job", record=job, attempt=1)
        text = "".join(_lines(dice)).encode()
        streams = (("stdout", text), ("stderr", b"WARNING: no display\n"))
        kept = [
            KeptLog(key=key, stream=stream, size=len(data), head=len(data), data=zlib.compress(data))  # type: ignore[arg-type]
            for stream, data in streams
        ]
        points = [(at * 60.0, *(float(dice.randrange(2000)) for _ in range(6))) for at in range(POINTS)]
        kept.append(usage_log(key, cast(list[Point], points)))
        store.logs.put([(one, stored_jobs.OWNER) for one in kept], now)


def _lines(dice: random.Random) -> Iterator[str]:
    for event in range(LINES // 2):
        yield OUTPUT.format(
            time=f"2026-11-27 04:{event:02}:{dice.randrange(60):02}",
            event=event,
            tracks=dice.randrange(400),
            chi=dice.random(),
            run=77,
        )


def _federation() -> Federation:
    names = [f"site-{number}" for number in range(SITES)]
    element = ComputingElement(max_pilots=10, pilot_slots=8)
    return Federation(
        name="bench",
        sites=tuple(Site(name=name, nucleus=name == "site-0") for name in names),
        storages=tuple(
            Storage(name=f"{name}-disk", site=name, url=f"virtual://{name}", free=5000) for name in names
        ),
        queues=tuple(
            Queue(
                name=f"{name}-queue",
                site=name,
                storage=f"{name}-disk",
                core_power=10,
                max_walltime=172_800,
                computing_element=element,
            )
            for name in names
        ),
    )
