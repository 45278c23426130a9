"""Circuit breakers of pilots are found without reading the pilots of queues where none can be open."""

import random
from dataclasses import replace
from typing import Literal

import pytest
from sqlalchemy import Connection, update

from pilotage.model.documents.world import World
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import PilotState as P
from pilotage.policies.pilots.circuit_breakers import of_pilots
from pilotage.store.pilots.table import pilots
from pilotage.store.pilots.world import live_and_ended_pilots, pilots_that_trip
from pilotage.testing.stores import new_pilot

from .house import House

QUEUES = [f"queue-{number}" for number in range(12)]


def fill(house: House, policy: Literal["balanced", "taskqueue"], dice: random.Random) -> None:
    """Declare queues, and give each pilots that run, ended well, ended without work or failed."""
    before = house.store.federation()
    one = replace(before.queues[0], computing_element=ComputingElement(kind="fake", max_pilots=50))
    queues = tuple(replace(one, name=name) for name in QUEUES)
    director = replace(before.director, policy=policy)
    house.store.save_federation(replace(before, queues=queues, director=director), "test")
    for _ in range(120):
        new_pilot(house.store, dice.choice(QUEUES), time=house.now)
    house.store.database.write(lambda connection: _live(connection, house.now, dice))


def _live(connection: Connection, now: float, dice: random.Random) -> None:
    sound = set(QUEUES[:4])
    for number, queue in connection.execute(pilots.select().with_only_columns(pilots.c.id, pilots.c.queue)):
        states = (P.SUBMITTED, P.RUNNING) if queue in sound else (P.RUNNING, P.FINISHED, P.FAILED, P.FAILED)
        state, created = dice.choice(states), now - dice.uniform(0, 5000)
        called = state in (P.RUNNING, P.FINISHED) or (state is P.FAILED and dice.random() < 0.3)
        if queue == QUEUES[-1]:
            state, created, called = P.FAILED, now - dice.uniform(0, 3000), False
        values = {"state": str(state), "created": created, "since": dice.uniform(created, now)}
        values |= {"heartbeat": created if called else None, "matched": dice.choice((0, 0, 1))}
        values |= {"error": f"error {number}", "reference": dice.choice(("", "r"))}
        connection.execute(update(pilots).where(pilots.c.id == number).values(values))


def places(world: World) -> set[str]:
    return {pilot.queue for pilot in world.pilots}


@pytest.mark.parametrize("policy", ["balanced", "taskqueue"])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_breakers_are_found_with_fewer_pilots(
    house: House, policy: Literal["balanced", "taskqueue"], seed: int
) -> None:
    fill(house, policy, random.Random(seed))
    every = house.runtime.world(live_and_ended_pilots, "lifted_breakers", "lacking_nodes")
    few = house.runtime.world(pilots_that_trip, "lifted_breakers", "lacking_nodes")
    assert of_pilots(few) == of_pilots(every) != ()
    assert places(every) >= set(QUEUES[:4])
    assert not places(few) & set(QUEUES[:4]), "no pilot failed or ended there"
