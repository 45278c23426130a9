"""Work that is submitted just after a large task was cancelled starts as soon as anything lets it."""

from pilotage.agent.wire import MatchAnswer
from pilotage.flow.calls.pilots import pilot_end
from pilotage.flow.calls.pilots.match import match
from pilotage.flow.task_cancellation import cancel
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import JobState

from .house import FakeElement, House, attempts


def of_two_pilots(house: House) -> FakeElement:
    """A batch system that takes two pilots, and a large task at it."""
    house.element = element = FakeElement()
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=2))
    return element


def live(house: House) -> list[int]:
    return [pilot.id for pilot in house.store.queries.live_pilots()]


def asks(house: House, pilot: int) -> MatchAnswer:
    """What a pilot is handed that offers all that it was made with."""
    found = house.store.queries.pilot(pilot)
    assert found is not None
    return match(house.runtime, pilot, found.cores, found.memory, found.walltime, found.slots)


def test_pilots_hear_within_seconds_that_a_payload_is_to_stop(house: House) -> None:
    """What they run of a cancelled task is told in answers: these come often where few pilots live."""
    of_two_pilots(house)
    task = house.task(jobs=5)
    house.take("broker")
    pilot = house.pilot()
    answer = house.match(pilot, 1)
    house.report(pilot, "running", attempts(answer))
    cancel(house.runtime, task, "enough", "user:alice")
    assert answer.heartbeat <= 5, "the next report is due then"
    assert house.report(pilot, "running", attempts(answer)) == attempts(answer), "the payload is to stop"


def test_pilots_too_small_for_what_waits_leave_their_places_and_the_director_fills_them(house: House) -> None:
    element = of_two_pilots(house)
    task = house.task(jobs=500, ram=100)
    house.take("broker")
    house.take("provision")
    pilots = live(house)
    assert len(pilots) == 2
    for pilot in pilots:
        asks(house, pilot)
    cancel(house.runtime, task, "enough", "user:alice")
    house.task(jobs=1, ram=1000)
    house.take("broker")
    house.now += 30
    assert len(element.orders) == 2
    house.take("provision")
    assert asks(house, pilots[0]).idle == 0, "no job for it, and one waits for its place"
    pilot_end.end(house.runtime, pilots[0], "idle")
    assert asks(house, pilots[1]).idle >= 30, "there is room for another now"
    house.now += 30
    house.take("provision")
    assert len(element.orders) == 3
    answer = asks(house, element.orders[-1].pilot)
    assert len(attempts(answer)) == 1


def test_a_pilot_without_work_stays_where_nothing_waits_for_its_place(house: House) -> None:
    of_two_pilots(house)
    task = house.task(jobs=500, ram=100)
    house.take("broker")
    house.take("provision")
    pilot, _ = live(house)
    assert attempts(asks(house, pilot))
    cancel(house.runtime, task, "enough", "user:alice")
    assert asks(house, pilot).idle >= 30


def test_withdrawn_pilots_do_not_use_up_the_iteration_of_the_next_task(house: House) -> None:
    element = of_two_pilots(house)
    task = house.task(jobs=500)
    house.take("broker")
    house.take("provision")
    assert len(element.orders) == 2
    cancel(house.runtime, task, "enough", "user:alice")
    assert not live(house)
    following = house.task(jobs=1)
    house.take("broker")
    house.now += 10
    house.take("provision")
    assert len(element.orders) > 2
    assert house.states(following) == {JobState.ACTIVATED: 1}
