"""Pilots that their batch system does not start: why is told, and nobody waits for those that are stuck."""

from typing import Any

import pytest

from pilotage.flow.task_cancellation import cancel
from pilotage.model.records.states import PilotState, TaskState
from pilotage.model.records.work import Pilot
from pilotage.model.values.identity import Identity
from pilotage.ports.computing import PilotStatus
from pilotage.server.api.work.explanations import explained_pilot

from .house import FakeElement, House
from .test_guards_f2_f3 import fail, fetch

WAITS = "PENDING (Resources)"


@pytest.fixture
def element(house: House) -> FakeElement:
    made = house.element = FakeElement()
    return made


def waiting(house: House, **spec: Any) -> int:
    """A task whose jobs wait for pilots that are in the batch system."""
    task = house.task(**{"jobs": 50, "priority": 900, **spec})
    house.take("broker")
    house.now += 1000
    house.take("provision")
    return task


def pilots(house: House) -> list[Pilot]:
    return list(house.store.queries.pilots(None, None, 100))


def test_why_pilots_wait_is_kept_and_told(house: House, element: FakeElement) -> None:
    element.status = PilotStatus(state="waiting", reason=WAITS)
    waiting(house)
    house.take("provision")
    assert {(one.state, one.waits) for one in pilots(house)} == {(PilotState.SUBMITTED, WAITS)}
    told = explained_pilot(house.runtime, pilots(house)[0].id)
    assert told
    assert f"  waits there: {WAITS}" in told.lines
    version = house.take("provision")
    assert version == 0, "the same reason is no news"
    element.status = PilotStatus(state="unknown", reason="sacct refuses it")
    house.take("provision")
    assert {one.waits for one in pilots(house)} == {"cannot be seen: sacct refuses it"}
    element.status = PilotStatus(state="running")
    house.take("provision")
    assert {(one.state, one.waits) for one in pilots(house)} == {(PilotState.SUBMITTED, "")}


def test_a_stuck_pilot_fails_with_its_words_and_is_ended_at_its_site(
    house: House, element: FakeElement
) -> None:
    waiting(house)
    ordered = {f"reference-{order.pilot}" for order in element.orders}
    element.status = PilotStatus(state="stuck", reason="Eqw: can't chdir to /nowhere")
    house.take("provision")
    house.take("provision")
    failed = [one for one in pilots(house) if one.state is PilotState.FAILED]
    assert {one.error for one in failed} == {"does not start: Eqw: can't chdir to /nowhere"}
    assert {one.reference for one in failed} == ordered
    assert set(element.cancelled) == ordered


def test_pilots_of_a_cancelled_task_are_ended_where_nothing_else_waits(
    house: House, element: FakeElement
) -> None:
    task = waiting(house)
    cancel(house.runtime, task, "cancelled by a person", "alice")
    assert {one.state for one in pilots(house)} == {PilotState.CANCELLED}
    assert set(element.cancelled) == {f"reference-{order.pilot}" for order in element.orders}


def test_pilots_of_a_task_that_is_stopped_are_ended_as_well(house: House, element: FakeElement) -> None:
    """Its first attempts all failed alike (F3)."""
    task = waiting(house, jobs=20)
    ordered = {order.pilot for order in element.orders}
    runs = house.pilot()
    for _ in range(10):
        fail(house, runs, fetch(house, runs))
    assert house.take("stop")
    assert house.store.queries.task(task).state is TaskState.FAILED  # type: ignore[union-attr]
    assert {one.id for one in pilots(house) if one.state is PilotState.CANCELLED} == ordered
    assert {f"reference-{one}" for one in ordered} == set(element.cancelled)


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        ({}, True),
        ({"ram": 100_000}, False),
        # Bob has use of those alone that run anybody's jobs (P7).
        ({"owner": Identity(name="bob", vo="ligo")}, None),
    ],
)
def test_pilots_that_other_work_could_use_are_kept(
    house: House, element: FakeElement, other: dict[str, Any], kept: bool | None
) -> None:
    task = waiting(house, ram=1000)
    house.task(**{"jobs": 1, "ram": 1000, **other})
    house.take("broker")
    cancel(house.runtime, task, "cancelled by a person", "alice")
    first = [one for one in pilots(house) if f"reference-{one.id}" == one.reference][-3:]
    for one in first:
        stays = one.kind == "generic" if kept is None else kept
        assert one.state is (PilotState.SUBMITTED if stays else PilotState.CANCELLED)


def test_pilots_are_kept_while_jobs_are_still_to_be_made(house: House, element: FakeElement) -> None:
    task = waiting(house)
    house.submit({"jobs": 1})
    cancel(house.runtime, task, "cancelled by a person", "alice")
    assert {one.state for one in pilots(house)} == {PilotState.SUBMITTED}


def test_a_pilot_whose_submission_is_under_way_is_ended_when_it_is_known(
    house: House, element: FakeElement
) -> None:
    element.fault = TimeoutError()
    task = waiting(house)
    assert {one.state for one in pilots(house)} == {PilotState.CREATED}
    element.fault = None
    house.now += 60
    cancelled: list[str] = element.cancelled
    cancel(house.runtime, task, "cancelled by a person", "alice")
    assert {one.state for one in pilots(house)} == {PilotState.CANCELLED}
    assert cancelled == []


def test_pilots_that_run_are_not_touched(house: House, element: FakeElement) -> None:
    task = waiting(house)
    (order, *_) = element.orders
    house.match(order.pilot, most=0)
    cancel(house.runtime, task, "cancelled by a person", "alice")
    states = {one.id: one.state for one in pilots(house)}
    assert states.pop(order.pilot) is PilotState.RUNNING
    assert set(states.values()) == {PilotState.CANCELLED}
