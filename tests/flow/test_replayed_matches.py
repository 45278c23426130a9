"""A match that a server made is made again from the world saved before it: the same decision (P13, E2)."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pilotage.flow.planning import plan
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.documents.world import World
from pilotage.model.records.federation import GlobalShare
from pilotage.model.records.matching import BorrowRequest, ClaimRequest, MatchRequest
from pilotage.model.records.states import JobState
from pilotage.testing import ALICE, BOB
from pilotage.testing.moves import given_to
from tests.watched_reads import watched

from .house import House
from .test_borrowing import declare, requests, south
from .test_guards_f2_f3 import black_hole, two_queues


def noted(house: House) -> list[ClaimRequest | BorrowRequest]:
    """What pilots of a house ask the store for from now on."""
    found: list[ClaimRequest | BorrowRequest] = []
    commit = house.store.matches.commit

    def noting(decision: Decision, *bases: Any) -> Any:
        found.extend(decision.requests)
        return commit(decision, *bases)

    house.store.matches.commit = noting  # type: ignore[method-assign,assignment]
    return found


def saved(house: House, *asking: MatchRequest, seed: int) -> World:
    """The world as it stands, where these pilots ask, as it is read from its file.

    The policy of matches finds there only the fields that its step declares.
    """
    world = replace(house.store.snapshots.whole(house.now, seed), requests=asking)
    return watched(from_json(World, to_json(world).decode()), "step match", step("match").fields, set())


def busy(house: House, dice: random.Random) -> None:
    """Work of two owners and shares at both queues: some of one priority, some that may be borrowed."""
    for _ in range(8):
        at = dice.choice(["north-queue", "south-queue", None])
        house.task(
            owner=dice.choice([ALICE, BOB]),
            jobs=dice.randint(1, 4),
            walltime=3600,
            ram=dice.choice([0, 500, 1000]),
            cores=dice.choice([1, 1, 2]),
            share=dice.choice(["physics", "biology"]),
            priority=dice.choice([100, 500, 500, 900]),
            **({"queues": (at,)} if at else {}),
        )
        house.take("broker")
        house.now += 600


def with_shares(house: House) -> None:
    declare(house)
    shares = (GlobalShare(name="physics", target=3), GlobalShare(name="biology", target=1))
    house.store.save_federation(replace(house.store.federation(), shares=shares), "test")


@pytest.mark.parametrize("seed", range(6))
def test_p13_a_live_match_is_made_again_from_its_saved_world(house: House, seed: int) -> None:
    dice = random.Random(seed)
    with_shares(house)
    busy(house, dice)
    asked = noted(house)
    kinds: set[type] = set()
    for number in range(5):
        at = dice.choice(["north-queue", "south-queue"])
        pilot = house.pilot() if at == "north-queue" else south(house)
        house.runtime.matching.pilot(pilot, house.now, seed)
        (request,) = requests(house, [pilot], at)
        free = dice.randint(1, 8)
        request = replace(request, cores=free, memory=dice.choice([0, 3000]), max_jobs=dice.randint(1, free))
        # A server looks at other queues every few seconds: what it sees is as old as that.
        house.now += 60
        world, begin = saved(house, request, seed=seed + number), len(asked)
        given = house.runtime.matching.match(request, house.now, seed + number).jobs
        planned = plan("match", world)
        assert list(planned.requests) == asked[begin:]
        assert given_to(world.jobs, planned).get(pilot, []) == [job.id for job in given]
        kinds.update(type(one) for one in planned.requests)
    assert ClaimRequest in kinds


def test_e2_both_kinds_of_requests_are_made_again(house: House) -> None:
    with_shares(house)
    busy(house, random.Random(1))
    own = house.task(jobs=2, walltime=3600, share="physics", queues=("south-queue",))
    house.take("broker")
    house.now += 36_000
    pilot, asked = south(house), noted(house)
    house.runtime.matching.pilot(pilot, house.now, 1)
    (request,) = requests(house, [pilot], "south-queue")
    request = replace(request, cores=50, max_jobs=50)
    world = saved(house, request, seed=1)
    given = house.runtime.matching.match(request, house.now, 1).jobs
    assert own in {job.task for job in given}
    assert {type(one) for one in asked} == {ClaimRequest, BorrowRequest}
    assert list(plan("match", world).requests) == asked


@pytest.mark.parametrize("later", [0, 1800])
def test_f2_a_match_at_a_place_where_jobs_failed_is_made_again(house: House, later: float) -> None:
    two_queues(house)
    task, north = black_hole(house)
    house.task(owner=BOB, jobs=3, queues=("north-queue",))
    house.take("broker")
    house.now += later
    (request,) = requests(house, [north], "north-queue")
    request, asked = replace(request, cores=8, max_jobs=8), noted(house)
    world = saved(house, request, seed=1)
    planned = plan("match", world)
    given = house.runtime.matching.match(request, house.now, 1).jobs
    assert [job.task == task for job in given] == ([True] if later else [False] * 3), "later one tries"
    assert given_to(world.jobs, planned)[north] == [job.id for job in given]
    # It remembered jobs that have left: what it asked for last is what it was given.
    assert list(planned.requests) == asked[-1:]


def test_p13_matches_of_many_pilots_together_are_made_again(house: House) -> None:
    with_shares(house)
    for priority in (100, 500, 900):
        house.task(
            jobs=4,
            walltime=3600,
            share="physics",
            priority=priority,
            queues=("north-queue",),
            ram=priority,
        )
    house.take("broker")
    pilots = [house.pilot() for _ in range(5)]
    house.runtime.matching.pilots(pilots, house.now, 3)
    asking: Sequence[MatchRequest] = [
        replace(one, cores=2, max_jobs=2) for one in requests(house, pilots, "north-queue")
    ]
    world, asked = saved(house, *asking, seed=3), noted(house)
    matched = house.runtime.matching.match_all(asking, house.now, 3)
    planned = plan("match", world)
    assert list(planned.requests) == asked
    given = {
        pilot: [job.id for job in one.jobs]
        for pilot, one in zip(pilots, matched, strict=True)
        if one and one.jobs
    }
    assert given_to(world.jobs, planned) == given
    assert sum(map(len, given.values())) == 10


def test_p13_a_planned_match_is_committed_as_a_live_one(house: House) -> None:
    with_shares(house)
    task = house.task(jobs=3, walltime=3600, share="physics", queues=("north-queue",))
    house.take("broker")
    pilot = house.pilot()
    house.runtime.matching.pilot(pilot, house.now, 1)
    (request,) = requests(house, [pilot], "north-queue")
    world = saved(house, replace(request, cores=2, max_jobs=2), seed=1)
    planned = plan("match", world)
    first, again = house.store.commit(planned, "test"), house.store.commit(planned, "test")
    assert [len(ids) for one in (first, again) for ids in one.accepted] == [2, 1], "each attempt once"
    assert house.states(task) == {JobState.SENT: 3}
    record = house.store.queries.pilot(pilot)
    assert record is not None
    assert record.matched == 3
