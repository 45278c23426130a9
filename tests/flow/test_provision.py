"""Pilots are recorded, then submitted; what came of it is recorded too (P10)."""

import pytest

from pilotage.model.states import PilotState
from pilotage.model.work import Pilot
from pilotage.ports.computing import PilotStatus

from .house import FakeElement, House


@pytest.fixture
def element(house: House) -> FakeElement:
    """A batch system with fifty jobs waiting for pilots in its queue."""
    made = FakeElement()
    house.element = made
    house.task(jobs=50, priority=900)
    house.take("broker")
    return made


def pilots(house: House) -> list[Pilot]:
    return house.store.queries.pilots(None, None, 100)


def test_pilots_are_submitted_with_a_token_of_their_own_and_never_beyond_the_queue_s_limit(
    house: House, element: FakeElement
) -> None:
    for _ in range(3):
        house.take("provision")
    assert len(element.orders) == 3
    assert {pilot.state for pilot in pilots(house)} == {PilotState.SUBMITTED}
    assert {pilot.reference for pilot in pilots(house)} == {f"reference-{o.pilot}" for o in element.orders}
    for order in element.orders:
        credential = house.store.tokens.find(order.token)
        assert credential is not None
        assert (credential.role, credential.pilot, order.server_url) == (
            "enrolment",
            order.pilot,
            "http://server",
        )


def test_p9_a_pilots_token_lasts_five_days(house: House, element: FakeElement) -> None:
    house.take("provision")
    found = [house.store.tokens.find(order.token) for order in element.orders]
    assert found
    assert {credential and credential.expires for credential in found} == {house.now + 5 * 86_400}


def test_a_pilot_that_is_not_taken_fails_with_the_reason_and_its_token_is_void(
    house: House, element: FakeElement
) -> None:
    element.fault = OSError("the batch system is away")
    house.take("provision")
    found = pilots(house)
    assert {pilot.state for pilot in found} == {PilotState.FAILED}
    assert {pilot.error for pilot in found} == {"not submitted: the batch system is away"}


def test_a_pilot_that_ended_without_a_word_makes_room_for_another(house: House, element: FakeElement) -> None:
    house.take("provision")
    element.status = PilotStatus(state="ended")
    house.take("provision")
    element.status = PilotStatus(state="waiting")
    house.take("provision")
    assert len(element.orders) == 3, "the queue is left alone for a while (P6)"
    house.now += 60
    house.take("provision")
    ended = [pilot for pilot in pilots(house) if pilot.state == PilotState.FAILED]
    assert {pilot.error for pilot in ended} == {"ended without a word"}
    assert len(element.orders) == len(ended) + 1


def test_a_batch_system_that_knows_nothing_ends_no_pilot(house: House, element: FakeElement) -> None:
    house.take("provision")
    element.status = PilotStatus(state="unknown")
    house.take("provision")
    assert {pilot.state for pilot in pilots(house)} == {PilotState.SUBMITTED}


def test_p4_pilots_that_wait_too_long_are_cancelled_at_their_site_and_hold_no_room(
    house: House, element: FakeElement
) -> None:
    house.take("provision")
    house.take("provision")
    waiting = [pilot.reference for pilot in pilots(house)]
    house.now += 6 * 3600
    house.take("watch")
    assert {pilot.state for pilot in pilots(house)} == {PilotState.CANCELLED}
    assert sorted(element.cancelled) == sorted(waiting)
    house.take("broker")
    house.take("provision")
    assert len(element.orders) == 2 * len(waiting)
