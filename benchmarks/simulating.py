"""Job-lives a second of the simulator: 20,000 without data at 60 queues, a tenth, and some with data.

``LIVES`` of the environment adds as many at 19,200 cores: under two bindings beside five times the work that
there are cores for, where a thousand tasks wait, or a hundred of ten times the jobs and ticks are longer; and
where the cores keep up. A run with a million takes 40 minutes.
"""

import os
import time
from dataclasses import replace

from pilotage.model.records.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.simulation.reading import Case, virtual
from pilotage.simulation.scenario import GeneratedWork, Scenario, SiteBehaviour
from pilotage.simulation.submissions import submissions
from pilotage.simulation.trials import run

QUEUES, CORES = 60, 83
WORK = GeneratedWork(tasks=70, jobs=300, arrivals=10_000, output_size=0)
WITH_DATA = GeneratedWork(tasks=30, jobs=300, arrivals=10_000, file_size=500, replicas=2, io_intensity=100)
SCENARIO = Scenario(
    name="speed",
    federation="",
    tick=300,
    default_site=SiteBehaviour(payload_fails=0.01),
    generated=WORK,
    estimate_spread=0.5,
)


def figures() -> dict[str, float]:
    """``simulated_lives_per_s`` of one policy and seed, from the first submission to the last end.

    ``simulated_lives_per_cpu_s`` counts the processor's s, which other processes lengthen less;
    ``simulated_lives_per_cpu_s_10th`` are those of a tenth of the queues, cores and tasks, and
    ``simulated_lives_with_data_per_cpu_s`` those of 20 queues that borrow jobs with an input of 500 MB each.
    """
    ended, seconds, used = _measured(QUEUES)
    few, _, used_by_few = _measured(QUEUES // 10)
    with_data, _, used_by_data = _measured(QUEUES // 3, WITH_DATA, "elastic")
    found = {
        "simulated_lives_per_s": ended / seconds,
        "simulated_lives_per_cpu_s": ended / used,
        "simulated_lives_per_cpu_s_10th": few / used_by_few,
        "simulated_lives_with_data_per_cpu_s": with_data / used_by_data,
    }
    if lives := int(os.environ.get("LIVES") or 0):
        for policy, load in (("early", 5), ("elastic", 5), ("elastic", 1)):
            found |= _told(f"{policy}_load_{load}", _measured_many(lives, policy, load))
        for policy in ("early", "elastic"):
            found |= _told(f"{policy}_of_large_tasks", _measured_many(lives, policy, 5, jobs=3000, tick=1800))
    return found


def _told(name: str, measured: tuple[int, float, float]) -> dict[str, float]:
    ended, _, used = measured
    return {f"simulated_many_{name}": ended, f"simulated_many_{name}_cpu_s": used}


def _measured(queues: int, work: GeneratedWork = WORK, policy: str = "pilotage") -> tuple[int, float, float]:
    """The jobs that ended, the s that passed, and those that the processor worked."""
    scenario = replace(SCENARIO, generated=replace(work, tasks=work.tasks * queues // QUEUES))
    element = ComputingElement(max_pilots=CORES)
    return _timed(Case(scenario, virtual(bench_federation(queues, element), scenario)), policy)


def _measured_many(
    lives: int, policy: str, load: int, jobs: int = WORK.jobs, tick: float = 600
) -> tuple[int, float, float]:
    """The same for about so many: what arrives in an hour is ``load`` times what the cores do in one."""
    # A task has more jobs than its median in the mean.
    tasks = max(1, 870_000 * lives // 1_000_000 // jobs)
    work = replace(WORK, tasks=tasks, jobs=jobs, arrivals=0.2 / load * lives)
    scenario = replace(SCENARIO, tick=tick, period=tick, limit=2e6, generated=work)
    element = ComputingElement(max_pilots=5, pilot_slots=64)
    return _timed(Case(scenario, virtual(bench_federation(QUEUES, element), scenario)), policy)


def _timed(case: Case, policy: str) -> tuple[int, float, float]:
    begun = time.process_time()
    trial = run(case, policy, 1, submissions(case, 1))
    return trial.metrics.jobs - trial.metrics.unfinished, trial.seconds, time.process_time() - begun


def bench_federation(queues: int, element: ComputingElement) -> Federation:
    """Return a federation of sites with a queue and a disk each."""
    names = [f"site-{number}" for number in range(queues)]
    return Federation(
        name="bench",
        sites=tuple(Site(name=name) for name in names),
        storages=tuple(
            Storage(name=f"{name}-disk", site=name, url=f"virtual://{name}", free=5000, remote_reads=True)
            for name in names
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
