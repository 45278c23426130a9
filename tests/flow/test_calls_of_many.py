"""Calls of several pilots in one commit: each gets, and may do, what it would alone."""

from dataclasses import replace

from pilotage.flow.calls.pilots.pilot_end import end_all
from pilotage.flow.calls.pilots.report import report_all
from pilotage.model.documents.world import Heartbeat, Report
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import JobState, PilotState

from .house import House

J, P = JobState, PilotState


def match_all(house: House, pilots: list[int], most: int = 1) -> dict[int, list[int]]:
    matching = house.runtime.matching
    records = matching.pilots(pilots, house.now, 1)
    requests = [
        MatchRequest(
            pilot=record.id,
            queue=record.queue,
            kind=record.kind,
            owner=record.owner,
            cores=most,
            memory=0,
            walltime=1e6,
            max_jobs=most,
        )
        for record in records.values()
    ]
    found = matching.match_all(requests, house.now, 1)
    return {
        request.pilot: [job.id for job in matched.jobs] if matched else []
        for request, matched in zip(requests, found, strict=True)
    }


def test_several_pilots_are_given_each_job_once(house: House) -> None:
    task = house.task(jobs=5)
    pilots = [house.pilot() for _ in range(3)]
    house.take("broker")
    given = match_all(house, pilots, most=2)
    assert sorted(len(jobs) for jobs in given.values()) == [1, 2, 2]
    assert len({job for jobs in given.values() for job in jobs}) == 5
    assert house.states(task) == {J.SENT: 5}
    assert [house.store.queries.pilot(pilot).matched for pilot in pilots] == [  # type: ignore[union-attr]
        len(given[pilot]) for pilot in pilots
    ]


def test_pilots_know_of_jobs_that_were_activated_since(house: House) -> None:
    pilots = [house.pilot() for _ in range(2)]
    house.task(jobs=1)
    house.take("broker")
    assert sorted(map(len, match_all(house, pilots).values())) == [0, 1]
    house.task(jobs=2)
    house.take("broker")
    assert sorted(map(len, match_all(house, pilots).values())) == [1, 1]


def test_one_that_ended_is_given_nothing_and_keeps_nothing_from_the_others(house: House) -> None:
    house.task(jobs=2)
    house.take("broker")
    gone, alive = house.pilot(), house.pilot()
    assert match_all(house, [gone], most=0) == {gone: []}
    end_all(house.runtime, [gone], "idle")
    assert house.store.queries.pilot(gone).state == P.FINISHED  # type: ignore[union-attr]
    first, then = match_all(house, [gone, alive], most=2), match_all(house, [alive], most=2)
    assert first.get(gone, []) == []
    assert len(first[alive]) + len(then[alive]) == 2


def test_each_pilot_reports_on_its_own_attempts_alone(house: House) -> None:
    task = house.task(jobs=3)
    house.take("broker")
    one, other = house.pilot(), house.pilot()
    given = match_all(house, [one, other])
    (mine,), (foreign,) = given[one], given[other]
    running = Report(job=mine, attempt=1, state="running")
    stops = report_all(
        house.runtime,
        [
            Heartbeat(pilot=one, holding=((mine, 1),), reports=(running, replace(running, job=foreign))),
            Heartbeat(pilot=other, holding=((foreign, 1),)),
            Heartbeat(pilot=999, reports=(running,)),
        ],
    )
    assert stops == {one: [(foreign, 1)], other: []}
    assert house.states(task) == {J.RUNNING: 1, J.SENT: 1, J.ACTIVATED: 1}
    done = [
        Heartbeat(pilot=one, reports=(replace(running, state="done"),)),
        Heartbeat(pilot=other, holding=((foreign, 1), (mine, 1))),
    ]
    assert report_all(house.runtime, done) == {one: [], other: [(mine, 1)]}
    assert house.states(task) == {J.FINISHED: 1, J.SENT: 1, J.ACTIVATED: 1}


def test_pilots_that_leave_give_their_jobs_back(house: House) -> None:
    task = house.task(jobs=2)
    house.take("broker")
    pilots = [house.pilot() for _ in range(2)]
    match_all(house, pilots)
    house.now += 3600
    end_all(house.runtime, [*pilots, 999], "idle")
    assert {house.store.queries.pilot(pilot).state for pilot in pilots} == {P.FINISHED}  # type: ignore[union-attr]
    assert house.states(task) == {J.DEFINED: 2}


def test_pilots_that_report_together_are_told_of_others_attempts_and_lose_what_they_do_not_name(
    house: House,
) -> None:
    task, one, other = house.task(jobs=5), house.pilot(), house.pilot()
    house.take("broker")
    ended, kept, _lost = match_all(house, [one], most=3)[one]
    foreign = match_all(house, [other], most=2)[other]
    house.now += 120
    done = Report(job=ended, attempt=1, state="done")
    told = [
        Heartbeat(pilot=one, holding=((kept, 1), (foreign[0], 1), (999, 1)), reports=(done,)),
        Heartbeat(pilot=other, holding=tuple((job, 1) for job in foreign)),
    ]
    assert report_all(house.runtime, told) == {one: [(foreign[0], 1), (999, 1)], other: []}
    # What was lost waits to be brokered again.
    assert house.states(task) == {J.FINISHED: 1, J.SENT: 3, J.DEFINED: 1}
