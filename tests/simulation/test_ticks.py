"""Ticks: a long one has as many parts as minutes, and each begins with what happened since the last."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from pilotage.model.records.federation import ComputingElement, Federation
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.policies import KNOWN
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
    return replace(
        found, queues=tuple(replace(one, computing_element=element, num_slots=8000) for one in found.queues)
    )


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


def test_room_that_comes_between_two_ticks_goes_to_what_comes_first() -> None:
    scenario = Scenario(name="turns", federation="", tick=60, period=300)
    simulation = Simulation(virtual(federation(), scenario), scenario, 1, KNOWN["early"])
    try:
        for number in range(20):
            spec = replace(SUBMITTED.spec, name=f"task{number}", jobs=30, priority=200 + number % 3 * 100)
            work = tuple(3000.0 + 500 * (number % 7) + 400 * job for job in range(30))
            assert not simulation.submit(replace(SUBMITTED, spec=spec, work=work)).refused
        simulation.run(60)
        waits, contested = _waiting(simulation), 0
        while waits:
            simulation.run(60)
            before, waits = waits, _waiting(simulation)
            went = before - waits
            contested += bool(went and waits)
            assert not (went and waits) or max(went) <= min(waits)
        assert contested > 3, "room came while others waited"
    finally:
        simulation.close()


def _waiting(simulation: Simulation) -> set[tuple[int, int, int]]:
    """Jobs without a queue, by the order in which they are due: less priority, task, number."""
    query = text("SELECT -priority, task, id FROM jobs WHERE state IN ('defined', 'pending')")
    found = simulation.store.database.read(lambda connection: connection.execute(query).all())
    return {(less, task, id_) for less, task, id_ in found}
