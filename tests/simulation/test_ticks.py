"""Long ticks: what a server does part after part is done in as many parts as a tick has minutes."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from pilotage.model.federation import ComputingElement, Federation
from pilotage.model.identity import Identity
from pilotage.model.work import TaskSpec
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.reading import virtual
from pilotage.simulation.scenario import Scenario
from pilotage.simulation.simulation import Simulation
from tests.simulation.test_week import federation

SUBMITTED = SimulatedTask(
    spec=TaskSpec(name="many", command=("run",), jobs=2500, scouts=0),
    owner=Identity(name="alice", vo="ligo"),
    work=(36_000.0,),
)


def large() -> Federation:
    """Queues with room for all jobs at once."""
    found = federation()
    element = ComputingElement(max_pilots=1000, pilot_slots=8)
    return replace(found, queues=tuple(replace(one, computing_element=element) for one in found.queues))


@pytest.mark.parametrize(("tick", "split", "brokered"), [(60, 1000, 1000), (600, 2500, 2500)])
def test_a_tick_of_minutes_splits_and_brokers_as_much_as_its_minutes_would(
    tick: float, split: int, brokered: int
) -> None:
    scenario = Scenario(name="ticks", federation="", tick=tick, period=tick)
    simulation = Simulation(virtual(large(), scenario), scenario, 1)
    try:
        assert not simulation.submit(SUBMITTED).refused
        simulation.run(1)
        query = text("SELECT count(*), sum(state <> 'defined') FROM jobs")
        made = simulation.store.database.read(lambda connection: connection.execute(query).one())
        assert tuple(made) == (split, brokered)
    finally:
        simulation.close()
