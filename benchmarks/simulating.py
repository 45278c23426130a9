"""Job-lives a second of the simulator: 20,000 jobs without data on 5,000 cores of sixty queues."""

from pilotage.model.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.simulation.reading import Case, virtual
from pilotage.simulation.scenario import GeneratedWork, Scenario, SiteBehaviour
from pilotage.simulation.trials import run
from pilotage.simulation.work import submissions

QUEUES, CORES = 60, 83
SCENARIO = Scenario(
    name="speed",
    federation="",
    tick=300,
    default_site=SiteBehaviour(payload_fails=0.01),
    generated=GeneratedWork(tasks=70, jobs=300, arrivals=10_000, output_size=0),
    estimate_spread=0.5,
)


def figures() -> dict[str, float]:
    """``simulated_lives_per_s`` of one policy and seed, from the first submission to the last end."""
    case = Case(SCENARIO, virtual(_federation(), SCENARIO))
    trial = run(case, "pilotage", 1, submissions(case, 1))
    ended = trial.metrics.jobs - trial.metrics.unfinished
    return {"simulated_lives_per_s": ended / trial.seconds}


def _federation() -> Federation:
    names = [f"site-{number}" for number in range(QUEUES)]
    return Federation(
        name="bench",
        sites=tuple(Site(name=name) for name in names),
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
                computing_element=ComputingElement(max_pilots=CORES),
            )
            for name in names
        ),
    )
