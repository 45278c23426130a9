"""Pilots are handed attempts, once each, and what they report moves only their own."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pilotage.flow.calls.pilots import pilot_end
from pilotage.flow.errors import NoSuchTask, PilotGone
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.world import Report
from pilotage.model.records.federation import GlobalShare
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.rules.timeouts import first_lease_of, lease_of
from pilotage.testing import federation

from .house import House, attempts
from .house import federation as flow_federation

J = JobState


def test_many_pilots_at_once_are_never_handed_the_same_attempt(house: House) -> None:
    task = house.task(jobs=200)
    house.take("broker")
    pilots = [house.pilot() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda pilot: attempts(house.match(pilot, 30)), pilots))
    handed = [attempt for answer in answers for attempt in answer]
    assert len(handed) == len(set(handed)) == 200
    assert house.states(task) == {J.SENT: 200}


def test_p13_the_share_furthest_below_its_target_goes_first(house: House) -> None:
    """Whatever the priorities, pilot by pilot, and by what pilots have when it is counted anew."""
    shares = (GlobalShare(name="physics", target=3), GlobalShare(name="biology", target=1))
    declared = replace(flow_federation(house.place), name="flow", shares=shares)
    house.store.save_federation(declared, "test")
    tasks = [house.task(jobs=40, share="physics"), house.task(jobs=40, share="biology", priority=900)]
    house.take("broker")
    for _ in range(8):
        assert len(attempts(house.match(house.pilot(), 1))) == 1
    assert [house.states(task)[J.SENT] for task in tasks] == [6, 2]
    (physics, *_) = attempts(house.match(pilot := house.pilot(), 4))
    assert [house.states(task)[J.SENT] for task in tasks] == [9, 3]
    house.report(pilot, "failed", [physics])
    house.now += 10
    house.match(house.pilot(), 1)
    assert [house.states(task)[J.SENT] for task in tasks] == [9, 3], "what was given back is due again"


def test_a_life_without_payload_goes_all_the_way(house: House) -> None:
    task = house.task(jobs=3)
    house.take("broker")
    pilot = house.pilot()
    mine = attempts(house.match(pilot))
    assert house.report(pilot, "done", mine) == []
    house.take("finish")
    found = house.store.queries.task(task)
    assert found is not None
    assert (found.state, found.jobs) == ("finished", {"finished": 3})


def test_a_failed_attempt_is_tried_again_until_there_are_none_left(house: House) -> None:
    task = house.task(jobs=1, max_attempts=2)
    pilot = house.pilot()
    for attempt in (1, 2):
        house.take("broker")
        assert attempts(house.match(pilot)) == [(1, attempt)]
        house.tell(pilot, Report(job=1, attempt=attempt, state="failed", exit_code=1))
    house.take("finish")
    found = house.store.queries.task(task)
    assert found is not None
    assert (found.state, found.jobs) == ("failed", {"failed": 1})


def test_an_old_attempt_is_told_to_stop_and_moves_nothing(house: House) -> None:
    task = house.task(jobs=1)
    house.take("broker")
    first, second = house.pilot(), house.pilot()
    house.match(first)
    house.report(first, "failed", [(1, 1)])
    house.take("broker")
    assert attempts(house.match(second)) == [(1, 2)]
    assert house.report(first, "done", [(1, 1)]) == [(1, 1)]
    assert house.states(task) == {J.SENT: 1}


def test_a_pilot_that_ends_gives_back_what_it_holds(house: House) -> None:
    house.task(jobs=1)
    house.take("broker")
    pilot = house.pilot()
    house.match(pilot)
    pilot_end.end(house.runtime, pilot, "idle")
    record = house.store.queries.pilot(pilot)
    assert record is not None
    assert record.state is PilotState.FINISHED
    with pytest.raises(PilotGone):
        house.match(pilot)
    with pytest.raises(PilotGone):
        house.report(pilot, "done", [(1, 1)])


def test_a_cancelled_task_stops_everywhere(house: House) -> None:
    task = house.task(jobs=4)
    house.take("broker")
    pilot = house.pilot()
    mine = attempts(house.match(pilot, 2))
    assert cancel(house.runtime, task, "no more", "user:alice") == 5
    assert house.states(task) == {J.CANCELLED: 4}
    assert house.report(pilot, "running", mine) == sorted(mine)
    with pytest.raises(NoSuchTask):
        cancel(house.runtime, 99, "no more", "user:alice")


def test_a_pilot_outlives_a_server_that_is_away_for_an_hour() -> None:
    """Its payloads run on for the lease, which is less than the time after which its jobs are others'."""
    as_delivered = federation()
    assert (
        3600 + as_delivered.loops.heartbeat
        < lease_of(as_delivered.timeouts, "")
        < as_delivered.timeouts.heartbeat
    )
    assert first_lease_of(as_delivered.timeouts, "") < as_delivered.timeouts.sent
