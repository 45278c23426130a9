"""Reports with nothing to tell: one statement, and the same answer as the policy's."""

import pytest

from pilotage.flow.calls.pilots import report
from pilotage.flow.errors import PilotGone
from pilotage.model.records.states import JobState, PilotState
from pilotage.testing.stores import move, moved
from tests.reading import BROKERED, world_of

from .house import House, attempts


def seen(house: House, pilot: int) -> tuple[PilotState, float | None]:
    found = house.store.queries.pilot(pilot)
    assert found is not None
    return found.state, found.heartbeat


def test_a_heartbeat_of_what_both_sides_know_is_noted_and_reads_no_world(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, pilot = house.task(jobs=2), house.pilot()
    house.take("broker")
    held = attempts(house.match(pilot))
    assert len(held) == 2
    house.now += 60

    def no_world(*_: object) -> None:
        raise AssertionError("a world was read")

    with monkeypatch.context() as patched:
        patched.setattr("pilotage.store.worlds.snapshots.Snapshots.read", no_world)
        assert report.report(house.runtime, pilot, held, ()) == []
    assert seen(house, pilot) == (PilotState.RUNNING, house.now)
    (queue,) = world_of(house.store, BROKERED, house.now, 1, 10).queue_reports
    assert queue.last_pilot == house.now
    assert house.states(task) == {JobState.SENT: 2}


def test_a_pilot_that_holds_more_than_its_own_is_told_and_one_that_lost_some_is_followed(
    house: House,
) -> None:
    task, pilot = house.task(jobs=2), house.pilot()
    house.take("broker")
    held = attempts(house.match(pilot))
    assert report.report(house.runtime, pilot, [*held, (999, 1)], ()) == [(999, 1)]
    house.now += 120
    assert report.report(house.runtime, pilot, held[:1], ()) == []
    assert house.states(task) == {JobState.SENT: 1, JobState.DEFINED: 1}


def test_a_first_call_makes_a_pilot_run_and_one_that_ended_is_refused(house: House) -> None:
    pilot = house.pilot()
    assert report.report(house.runtime, pilot, (), ()) == []
    assert seen(house, pilot) == (PilotState.RUNNING, house.now)
    moved(house.store, move("pilot", [pilot], PilotState.RUNNING, PilotState.FINISHED))
    with pytest.raises(PilotGone):
        report.report(house.runtime, pilot, (), ())
