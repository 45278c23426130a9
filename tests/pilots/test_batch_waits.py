"""Waits in batch systems, and pilots that stay because of them (E5)."""

from dataclasses import replace

import pytest

from pilotage.model.records.constants import LoopConstants
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot
from pilotage.policies.pilots import matcher
from pilotage.policies.pilots.batch_waits import (
    CALLS_A_SECOND,
    expected_wait,
    expected_waits,
    is_in_the_way,
    pace,
    stay,
)
from pilotage.testing import NOW, federation, pilot, queue, request, world

LOOPS = LoopConstants(pilot_idle=30, pilot_idle_most=3600)


def waits(age: float, name: str = "A", id_: int = 1) -> Pilot:
    one = pilot(id_, queue=name, state=PilotState.SUBMITTED)
    return replace(one, created=NOW - age, since=NOW - age)


def started(after: float, name: str = "A", id_: int = 2, state: PilotState = PilotState.RUNNING) -> Pilot:
    return replace(pilot(id_, queue=name, state=state), created=NOW - 900, since=NOW - 900 + after)


def test_e4_the_wait_is_what_all_waited_over_those_that_started() -> None:
    assert expected_wait([], NOW) == 0
    assert expected_wait([waits(100), waits(200, id_=3)], NOW) == 300
    assert expected_wait([waits(100), started(300)], NOW) == 400


def test_e5_waits_are_those_of_live_pilots_by_queue() -> None:
    ended = started(800, id_=3, state=PilotState.FINISHED)
    assert expected_waits([started(200), ended, waits(50, "B")], NOW) == {"A": 200, "B": 50}


@pytest.mark.parametrize(("wait", "seconds"), [(0, 30), (29, 30), (840, 840), (3600, 3600), (9000, 3600)])
def test_e5_a_pilot_stays_as_long_as_a_new_one_would_wait_within_bounds(wait: float, seconds: float) -> None:
    assert stay(LOOPS, queue(), wait) == seconds


def test_e5_no_pilot_stays_where_none_would_be_started_or_none_may_stay_longer() -> None:
    assert stay(LOOPS, replace(queue(), status="offline"), 840) == 30
    assert stay(LOOPS, replace(queue(), computing_element=None), 840) == 30
    assert stay(replace(LOOPS, pilot_idle_most=0), queue(), 840) == 30


@pytest.mark.parametrize("gap", [0, 100, 840, 841, 5000])
def test_e5_idle_time_and_wait_are_at_most_twice_what_foresight_would_cost(gap: float) -> None:
    wait = 840.0
    seconds = stay(LOOPS, queue(), wait)
    cost = gap if gap <= seconds else seconds + wait
    assert cost <= 2 * min(gap, wait)


def test_e5_the_match_says_how_long_those_stay_that_get_nothing() -> None:
    fed = federation(queues=[queue()], loops=LOOPS)
    present = (started(600, "Q", id_=1),)
    decision = matcher.match(world(fed, pilots=present, requests=(request(),)))
    assert decision.notes == {"stays": [{"queue": "Q", "seconds": 600, "wait": 600}]}


def test_few_pilots_call_often_and_many_together_no_more_often_than_a_few() -> None:
    paces = [pace(LOOPS, live) for live in range(5000)]
    assert paces == sorted(paces)
    assert paces[2] <= 5
    assert paces[-1] == LOOPS.heartbeat
    assert all(live / pace(LOOPS, live) <= CALLS_A_SECOND for live in range(1, 1200))
    assert pace(replace(LOOPS, heartbeat=0.5), 2) == 0.5, "what operators say is the most"


def goes(live: int, busy: int, beyond: int) -> int:
    """Count the pilots that go, of those without work, when each of them asks once."""
    asking = range(live - busy)
    return sum(is_in_the_way(100, live, busy, beyond, f"{one} 7") for one in asking)


def test_of_pilots_that_hold_the_places_of_others_about_as_many_go_as_jobs_wait() -> None:
    assert goes(live=100, busy=0, beyond=1) in range(6)
    assert goes(live=100, busy=0, beyond=30) in range(15, 45)
    assert goes(live=100, busy=99, beyond=1) == 1, "the only one that has no work"
    assert goes(live=100, busy=40, beyond=500) == 60
    assert goes(live=99, busy=0, beyond=500) == 0, "there is room for another"
