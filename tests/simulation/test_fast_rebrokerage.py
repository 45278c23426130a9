"""Fast rebrokerage in a running federation: a batch system that starts no pilot loses its jobs for good
(B26, B30)."""

from collections.abc import Mapping

import pytest

from pilotage.model.records.constants import DirectorConstants, TimeoutConstants
from pilotage.model.records.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.reading import virtual
from pilotage.simulation.scenario import Scenario, SiteBehaviour
from pilotage.simulation.simulation import Simulation

SLOTS = {"alive": 3, "dead": 40}
NEVER = 1e8


def simulation(tick: int, wait: float = NEVER) -> Simulation:
    """Three slots at one site, and 40 at another, where pilots wait for so long."""
    declared = Federation(
        name="virtual",
        sites=tuple(Site(name=name) for name in SLOTS),
        storages=tuple(Storage(name=name, site=name, url=f"virtual://{name}", free=1000) for name in SLOTS),
        queues=tuple(
            Queue(
                name=name, site=name, storage=name, core_power=10,
                computing_element=ComputingElement(max_pilots=slots),
            )
            for name, slots in SLOTS.items()
        ),
        director=DirectorConstants(policy="balanced"),
        timeouts=TimeoutConstants(fast_rebro_threshold_nqueue={"default": 2}, fast_rebro_wait=15),
    )  # fmt: skip
    sites: Mapping[str, SiteBehaviour] = {
        "alive": SiteBehaviour(wait=1, wait_spread=0),
        "dead": SiteBehaviour(wait=wait, wait_spread=0),
    }
    scenario = Scenario(name="pending", federation="", tick=tick, period=tick, sites=sites)
    return Simulation(virtual(declared, scenario), scenario, seed=1)


def submit(made: Simulation, jobs: int) -> None:
    spec = TaskSpec(name=f"some-{made.clock():.0f}", command=("run",), jobs=jobs, cpu_time=6000, scouts=0)
    owner = Identity(name="alice", vo="sim")
    assert not made.submit(SimulatedTask(spec=spec, owner=owner, work=(6000,))).refused


def at_dead(made: Simulation, jobs: int) -> set[int]:
    """The jobs that wait at the queue where no pilot starts."""
    found = [made.store.queries.job(number) for number in range(1, jobs + 1)]
    return {one.id for one in found if one and one.queue == "dead"}


@pytest.mark.endurance
def test_b30_jobs_do_not_return_to_a_queue_that_never_called() -> None:
    made = simulation(tick=15)
    submit(made, 30)
    before, gone = set[int](), set[int]()
    for _ in range(100):
        made.run(15)
        now = at_dead(made, 30)
        gone |= before - now
        assert not gone & now, "these left it before"
        before = now
    assert len(gone) >= 18
    assert len(made.journal.ended) >= 6, "three slots for 25 minutes"


def test_b26_a_queue_that_never_called_gets_nothing_after_three_hours_until_a_pilot_calls() -> None:
    made = simulation(tick=120, wait=4 * 3600)
    submit(made, 30)
    made.run(3 * 3600 + 60)
    begun = at_dead(made, 30)
    submit(made, 30)
    made.run(600)
    assert at_dead(made, 60) <= begun
    made.run(3600)
    assert len(made.journal.ended) == 60
    submit(made, 30)
    made.run(240)
    assert any(number > 60 for number in at_dead(made, 90))
