"""A brokerage cycle from the store and back into it: 100,000 jobs of 2,000 tasks over 500 queues."""

import shutil
import tempfile
import time
from pathlib import Path

from pilotage.flow.calls.work.submit import submit
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.records.federation import ComputingElement, Federation, Link, Queue, Site, Storage
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.server.process import runtime_of
from pilotage.store import Store

from . import house

TASKS, JOBS, QUEUES = 2_000, 100_000, 500


def figures() -> dict[str, float]:
    """``broker_cycle_100k_s_DATABASE``: seconds from defined jobs to committed placements with reasons."""
    found: dict[str, float] = {}
    databases: tuple[house.Database, ...] = ("sqlite", "postgresql")
    for database in databases:
        place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
        place.chmod(0o755)
        try:
            with house.store(database, place) as url:
                found[f"broker_cycle_100k_s_{database}"] = _cycle(url)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return found


def _cycle(url: str) -> float:
    store = Store.open(url)
    try:
        store.save_federation(federation(), "bench")
        specs = [task(number) for number in range(TASKS)]
        runtime = runtime_of(store)
        submit(runtime, specs, Identity(name="bench", vo="bench"))
        while take(step("split"), runtime, runtime.begin(JOBS)):
            pass
        begun = time.monotonic()
        take(step("broker"), runtime, runtime.begin(JOBS))
        seconds = time.monotonic() - begun
        # A pass of the broker reads nothing where no job is left to place, not even counts.
        placed = sum(sum(queue.jobs.values()) for queue in store.queries.queues())
        if placed != JOBS:
            raise RuntimeError(f"{placed} of {JOBS} jobs were placed: this figure would mean nothing")
        return seconds
    finally:
        store.close()


def federation() -> Federation:
    """Queues of many sizes at 100 sites, with room for all jobs."""
    sites = [f"site-{number:03}" for number in range(100)]
    return Federation(
        name="cycle",
        sites=tuple(Site(name=name, nucleus=index < 5) for index, name in enumerate(sites)),
        storages=tuple(Storage(name=f"{name}-disk", site=name, url=f"file:///{name}") for name in sites),
        queues=tuple(
            Queue(
                name=f"queue-{number:03}",
                site=sites[number % len(sites)],
                storage=f"{sites[number % len(sites)]}-disk",
                cores=(1, 8, 0)[number % 3],
                max_memory=(2000, 4000, 16000, 0)[number % 4],
                max_walltime=(0, 172800, 345600)[number % 3],
                num_slots=1000,
                computing_element=ComputingElement(),
            )
            for number in range(QUEUES)
        ),
        links=tuple(
            Link(source=name, destination=nucleus, closeness=float(index % 11), throughput_1d=float(index))
            for index, name in enumerate(sites)
            for nucleus in sites[:5]
            if name != nucleus
        ),
    )


def task(number: int) -> TaskSpec:
    """A task like few others."""
    return TaskSpec(
        name=f"task-{number}",
        jobs=JOBS // TASKS,
        priority=100 + number % 600,
        nucleus=f"site-{number % 5:03}",
        ram=500 + number % 1500,
        cpu_time=1000 + number % 50_000,
    )
