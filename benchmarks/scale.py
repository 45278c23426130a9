"""One PostgreSQL: what reports, matches and questions cost as pilots, jobs, tasks and queues grow.

Sizes are 1, 10 and 100 times a small federation of one run, so figures of one machine can be compared:
``SCALE=1,10`` by default. At 100 there are 10,000 queues, a million waiting jobs in 10,000 tasks, and
100,000 pilots.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

from sqlalchemy import Connection, text

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.explain.layout import TextForm
from pilotage.flow.calls.pilots.match import match
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step, read_world
from pilotage.flow.steps import STEPS
from pilotage.model.records.counters import JOBS_BY_QUEUE, JOBS_BY_TASK, PILOTS_BY_QUEUE
from pilotage.model.records.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.model.records.states import JobState
from pilotage.server.api.places.queues import shown_queues
from pilotage.server.api.work.explanations import explained_task
from pilotage.store import Store, TaskPage

from . import house, stored_jobs

QUEUES, PER_QUEUE, PILOTS_PER_QUEUE, PER_TASK = 100, 100, 10, 100
REPORTS, MATCHES, QUESTIONS = 500, 100, 20
PERIOD = 60.0
"""Seconds between two reports of a pilot."""
RUN = 3600.0
"""Seconds that a job runs: after each of them its pilot asks for another one."""
SIZED = 10
"""Largest size of which the bytes of a job are measured: PostgreSQL writes all tables again for that."""

PILOTS = """
INSERT INTO pilots (id, queue, requirements, kind, owner, vo, "group", vo_role, state, created, since, cores,
  memory, walltime, heartbeat, matched, site)
SELECT id, 'queue-' || id % :queues, (SELECT min(requirements) FROM jobs), 'generic', 'bench', 'bench', '',
  '', 'running', :now, :now, 1, 2000, 86400, :now, 0, 'site-0' FROM generate_series(1, :pilots) AS id"""


TASK_QUEUES = """
INSERT INTO task_queues (queue, requirements, priority, jobs)
SELECT queue, requirements, priority, count(*) FROM jobs GROUP BY 1, 2, 3"""


def figures() -> dict[str, float]:
    """Costs at each size, as ``scale_WHAT_SIZEx``, and the ratio of the largest to the smallest."""
    sizes = [int(size) for size in os.environ.get("SCALE", "1,10").split(",")]
    measured = {size: _at(size) for size in sizes}
    found = {f"scale_{name}_{size}x": one for size in sizes for name, one in measured[size].items()}
    first, last = measured[sizes[0]], measured[sizes[-1]]
    return found | {f"scale_{name}_ratio": last[name] / first[name] for name in first if first[name]}


def _at(size: int) -> dict[str, float]:
    with _store(size) as store:
        runtime = Runtime(store, (), load=load, movers=InstalledMovers)
        pilots = QUEUES * PILOTS_PER_QUEUE * size
        step, tasks = max(1, pilots // REPORTS), QUEUES * PER_QUEUE * size // PER_TASK
        asking = iter(range(1, pilots, max(1, pilots // (MATCHES + 1))))
        beats = _seconds(REPORTS, lambda at: store.heartbeats.beat([1 + at * step % pilots], time.time()))
        matches = _seconds(MATCHES, lambda _: _match(runtime, next(asking)))
        questions: dict[str, Callable[[int], object]] = {
            "status": lambda _: store.task_lists.page(TaskPage(limit=100)),
            "explain": lambda at: _explain(runtime, 1 + at * 7 % tasks),
            "queues": lambda _: shown_queues(runtime, None),
        }
        found = {f"{name}_p99_ms": _p99(_seconds(QUESTIONS, ask)) for name, ask in questions.items()}
        # The second pass of each: the first one loads what it needs.
        passes = {
            one.name: [pass_seconds(runtime, one) for _ in range(2)][1] for one in STEPS if one.has_loop
        }
        runtime.close()
        period = store.federation().loops.period
        return (
            found
            | {f"pass_{name}_ms": 1000 * seconds for name, seconds in passes.items()}
            | {
                "match_p99_ms": _p99(matches),
                "match_ms": 1000 * fmean(matches),
                "report_ms": 1000 * fmean(beats),
                "reports_load": fmean(beats) * pilots / PERIOD,
                "matches_load": fmean(matches) * pilots / RUN,
                "passes_load": sum(passes.values()) / period,
            }
            | ({} if size > SIZED else {"job_bytes": _bytes(store) / (QUEUES * PER_QUEUE * size)})
        )


def _bytes(store: Store) -> int:
    return sum(stored_jobs.sizes(store).values())


def _match(runtime: Runtime, pilot: int) -> None:
    found = match(runtime, pilot, 1, 2000, 86400, 1)
    assert found.works, "each queue has more jobs than pilots that ask"


def pass_seconds(
    runtime: Runtime, step: Step, clock: Callable[[], float] = time.process_time, ahead: float = 0.0
) -> float:
    """Return the seconds of a pass that reads and decides: of this processor, without the database's.

    Nothing is committed, and nothing happens outside. The pass takes place ``ahead`` s from now.
    """
    begun, now = clock(), runtime.begin(runtime.store.federation().loops.batch)
    world = read_world(step, runtime, replace(now, time=now.time + ahead))
    for phase in step.phases(world, runtime.brokerages):
        phase.decide(world)
    return clock() - begun


def _explain(runtime: Runtime, number: int) -> object:
    task = runtime.store.queries.task(number)
    assert task is not None
    return explained_task(runtime, task, runtime.store.queries.task_choices(number), TextForm(80))


def _seconds(times: int, call: Callable[[int], object]) -> list[float]:
    """Return how long each call takes, after one that warms up."""
    call(0)
    found = []
    for at in range(1, times):
        begun = time.perf_counter()
        call(at)
        found.append(time.perf_counter() - begun)
    return found


def _p99(seconds: list[float]) -> float:
    return 1000 * sorted(seconds)[int(len(seconds) * 0.99)]


@contextmanager
def _store(size: int) -> Iterator[Store]:
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with house.store("postgresql", place) as url:
            store = Store.open(url)
            store.save_federation(_federation(QUEUES * size), "bench")
            stored_jobs.fill(store, QUEUES * PER_QUEUE * size, JobState.ACTIVATED, PER_TASK, QUEUES * size)
            store.database.write(partial(_add_pilots, size))
            stored_jobs.analyze(store)
            yield store
            store.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _federation(queues: int) -> Federation:
    one = Queue(name="", site="site-0", storage="disk", max_memory=4000, computing_element=ComputingElement())
    return Federation(
        name="bench",
        sites=(Site(name="site-0", nucleus=True),),
        storages=(Storage(name="disk", site="site-0", url="memory://bench"),),
        queues=tuple(replace(one, name=f"queue-{number}") for number in range(queues)),
    )


def _add_pilots(size: int, connection: Connection) -> None:
    """Add pilots, and let the counters and task queues agree with the rows."""
    queues = QUEUES * size
    values = {"queues": queues, "pilots": queues * PILOTS_PER_QUEUE, "now": time.time()}
    connection.execute(text(PILOTS), values)
    connection.execute(text(TASK_QUEUES))
    stored_jobs.count_again(
        connection,
        (JOBS_BY_QUEUE, "jobs", "queue", "share"),
        (JOBS_BY_TASK, "jobs", "task", "''"),
        (PILOTS_BY_QUEUE, "pilots", "queue", "''"),
    )
