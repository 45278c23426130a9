"""An operator tests a queue by one pilot, which goes at once and tells what its node has."""

import time

import pytest

from pilotage.flow.calls.pilots import queue_tests
from pilotage.flow.calls.pilots.match import match
from pilotage.flow.errors import NotNow, NotThere
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import PilotState
from pilotage.model.values.identity import Identity

from .house import FakeElement, House

CAROL = Identity(name="carol", vo="ligo")


@pytest.fixture
def element(house: House) -> FakeElement:
    """A batch system without any work."""
    house.element = made = FakeElement()
    return made


def sent(house: House) -> int:
    return queue_tests.send(house.runtime, "north-queue", CAROL, "operator:carol")


@pytest.mark.parametrize("queue", [{}, {"status": "offline"}, {"cores": 8, "max_memory": 2000}])
def test_one_pilot_goes_at_once_whatever_the_queue(
    house: House, element: FakeElement, queue: dict[str, object]
) -> None:
    house.federate(**queue)
    number = sent(house)
    assert sent(house) == number, "one at a time"
    house.take("provision")
    house.take("provision")
    (order,) = element.orders
    assert (order.pilot, order.cores) == (number, queue.get("cores", 1))
    pilot = house.store.queries.pilot(number)
    assert pilot is not None
    assert (pilot.state, pilot.reason) == (PilotState.SUBMITTED, "test of its queue by carol")


def test_it_tells_its_node_and_how_wrong_the_clock_is(house: House, element: FakeElement) -> None:
    number = sent(house)
    house.take("provision")
    found = {"gpus": ["a100"], "containers": [], "clock": house.now - 90}
    match(house.runtime, number, 1, 0, 1000, 1, node="n1", found=found)
    node = house.store.logs.node(number)
    assert node is not None
    assert (node["gpus"], node["clock_ahead"]) == (["a100"], -90)


def test_no_node_is_blamed_for_a_step_of_the_database_s_clock(house: House, element: FakeElement) -> None:
    """Not even the only one: it agrees with the server's machine."""
    number = sent(house)
    house.take("provision")
    now = time.time()
    house.now = now + 149
    for clock, ahead in ((now, 0), (now + 149, 0), (now - 149, -149)):
        found = {"gpus": [], "containers": [], "clock": clock}
        match(house.runtime, number, 1, 0, 1000, 1, node="n1", found=found)
        node = house.store.logs.node(number)
        assert node is not None
        assert abs(node["clock_ahead"] - ahead) < 60


def test_the_next_test_sends_a_new_pilot(house: House, element: FakeElement) -> None:
    number = sent(house)
    element.refusal = "no such partition"
    house.take("provision")
    house.take("provision")
    pilot = house.store.queries.pilot(number)
    assert pilot is not None
    assert pilot.state is PilotState.FAILED
    assert "no such partition" in pilot.error
    assert sent(house) > number


@pytest.mark.parametrize(
    ("queue", "told"),
    [
        ({"computing_element": None}, "no computing_element"),
        ({"computing_element": ComputingElement(kind="pilotage")}, "hands its jobs to another Pilotage"),
    ],
)
def test_a_queue_that_takes_no_pilots_of_ours_is_refused(
    house: House, queue: dict[str, object], told: str
) -> None:
    house.federate(**queue)
    with pytest.raises(NotNow, match=told):
        sent(house)
    with pytest.raises(NotThere):
        queue_tests.send(house.runtime, "nowhere", CAROL, "operator:carol")
