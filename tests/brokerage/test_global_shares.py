"""The turn of global shares within a cycle: the share furthest below its target first."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import JobCount
from pilotage.model.records.federation import Federation, GlobalShare
from pilotage.model.records.states import JobState
from pilotage.model.rules.global_shares import order
from pilotage.testing import federation, jobs, queue, task, world
from pilotage.testing.choices import decide

HOUSE = federation([queue(num_slots=5)])
TWO = (GlobalShare(name="default", target=60), GlobalShare(name="gold", target=40))


def _shares(**targets: float) -> tuple[GlobalShare, ...]:
    return tuple(GlobalShare(name=name, target=target) for name, target in targets.items())


def _running(**by_share: int) -> tuple[JobCount, ...]:
    return tuple(
        JobCount(queue="Q", share=name, state=JobState.RUNNING, jobs=number)
        for name, number in by_share.items()
    )


def _turn(shares: tuple[GlobalShare, ...], counts: tuple[JobCount, ...] = ()) -> list[str]:
    placed = order(shares, counts)
    return sorted(placed, key=placed.__getitem__)


def test_the_share_furthest_below_its_target_comes_first() -> None:
    shares = _shares(a=50, b=30, c=20)
    assert _turn(shares, _running(a=50, b=30, c=19)) == ["c", "a", "b"]
    assert _turn(shares, _running(a=49, b=30, c=20)) == ["a", "b", "c"]
    assert _turn(shares, _running(a=50, b=0, c=1)) == ["b", "c", "a"]


def test_equal_shares_go_by_target_then_name_and_target_nought_comes_last() -> None:
    assert _turn(_shares(small=1, big=2, also=1)) == ["big", "also", "small"]
    assert _turn(_shares(nothing=0, some=1), _running(some=1000)) == ["some", "nothing"]


def test_siblings_compete_with_all_that_runs_below_them() -> None:
    shares = (
        GlobalShare(name="production", target=80),
        GlobalShare(name="simulation", parent="production", target=3),
        GlobalShare(name="derivation", parent="production", target=1),
        GlobalShare(name="analysis", target=20),
    )
    assert _turn(shares, _running(simulation=60, derivation=30, analysis=20)) == [
        "analysis",
        "production",
        "simulation",
        "derivation",
    ]
    assert _turn(shares, _running(simulation=60, derivation=10, analysis=20)) == [
        "production",
        "derivation",
        "simulation",
        "analysis",
    ]


def test_only_running_jobs_of_known_shares_count() -> None:
    waiting = (JobCount(queue="Q", share="a", state=JobState.ACTIVATED, jobs=1000),)
    assert _turn(_shares(a=2, b=1), waiting + _running(gone=1000)) == ["a", "b"]


def test_a_circle_of_parents_is_an_error() -> None:
    circle = (GlobalShare(name="a", parent="b"), GlobalShare(name="b", parent="a"))
    with pytest.raises(ValueError, match="the parents of share 'a' run in a circle"):
        order(circle, ())


def _decided(shares: tuple[GlobalShare, ...], counts: tuple[JobCount, ...], **priorities: int) -> Decision:
    work = [
        task(number, share=name, priority=priority)
        for number, (name, priority) in enumerate(priorities.items(), 1)
    ]
    house = Federation(
        name="test", sites=HOUSE.sites, storages=HOUSE.storages, queues=HOUSE.queues, shares=shares
    )
    return decide(world(house, *work, job_counts=counts))


def _tasks(decision: Decision) -> list[int]:
    return [choice.task for choice in decision.choices]


def test_tasks_go_by_share_before_priority() -> None:
    assert _tasks(_decided(TWO, _running(default=60, gold=39), default=900, gold=100)) == [2, 1]
    assert _tasks(_decided(TWO, _running(default=59, gold=40), default=100, gold=900)) == [1, 2]


def test_tasks_of_a_share_go_by_priority_then_age() -> None:
    work = [task(1, priority=100), task(2, priority=200), task(3, priority=200)]
    assert _tasks(decide(world(HOUSE, *work))) == [2, 3, 1]


def test_tasks_of_a_share_that_is_gone_come_last() -> None:
    assert _tasks(_decided(TWO, (), gone=900, gold=1)) == [2, 1]


def test_shares_have_their_turn_and_room_of_their_own() -> None:
    house = Federation(
        name="test", sites=HOUSE.sites, storages=HOUSE.storages, queues=HOUSE.queues, shares=TWO
    )
    rich, poor = task(1, share="default", priority=900), task(2, share="gold", priority=100)
    state = world(
        house,
        rich,
        poor,
        jobs=jobs(rich, 20) + jobs(poor, 20, first=21),
        job_counts=_running(default=5),
    )
    assert [(choice.task, dict(choice.placed)) for choice in decide(state).choices] == [
        (2, {"Q": 20}),
        (1, {"Q": 20}),
    ]


def test_b36_a_share_that_floods_a_queue_does_not_shut_the_others_out() -> None:
    house = Federation(
        name="test", sites=HOUSE.sites, storages=HOUSE.storages, queues=HOUSE.queues, shares=TWO
    )
    flooding = tuple(
        JobCount(queue="Q", share="default", state=state, jobs=jobs)
        for state, jobs in ((JobState.RUNNING, 50), (JobState.ACTIVATED, 101))
    )
    other, flooded = task(1, share="gold"), task(2, share="default")
    choices = {
        choice.task: choice for choice in decide(world(house, other, flooded, job_counts=flooding)).choices
    }
    assert dict(choices[1].placed) == {"Q": 1}
    assert dict(choices[2].placed) == {}
    assert choices[1].candidates.factors["B32"] == (6 / 10,)  # its declared slots, and nothing of the others


def test_b36_room_is_claimed_for_the_jobs_own_share() -> None:
    (move,) = decide(world(HOUSE, task(share="default"))).moves
    assert move.claims[0].key == ("Q", "default")


@st.composite
def _trees(draw: st.DrawFn) -> tuple[tuple[GlobalShare, ...], tuple[JobCount, ...]]:
    names = [f"s{number}" for number in range(draw(st.integers(1, 8)))]
    shares = tuple(
        GlobalShare(
            name=name,
            parent=draw(st.sampled_from(["", *names[:place]])),
            target=draw(st.sampled_from([0.0, 1.0, 1.0, 2.5, 40.0])),
        )
        for place, name in enumerate(names)
    )
    counts = tuple(
        JobCount(queue=where, share=name, state=JobState.RUNNING, jobs=draw(st.integers(0, 5)))
        for name in names
        for where in ("Q1", "Q2")
    )
    return shares, counts


@given(_trees(), st.randoms())
def test_the_order_of_shares_and_counts_does_not_matter(
    drawn: tuple[tuple[GlobalShare, ...], tuple[JobCount, ...]], shuffler: random.Random
) -> None:
    shares, counts = drawn
    other = order(shuffler.sample(shares, len(shares)), shuffler.sample(counts, len(counts)))
    assert other == order(shares, counts)
    assert sorted(other.values()) == list(range(len(shares)))


@given(_trees(), st.data())
def test_a_share_that_runs_more_never_comes_earlier(
    drawn: tuple[tuple[GlobalShare, ...], tuple[JobCount, ...]], data: st.DataObject
) -> None:
    shares, counts = drawn
    name = data.draw(st.sampled_from([share.name for share in shares]))
    more = (*counts, JobCount(queue="Q3", share=name, state=JobState.RUNNING, jobs=3))
    assert order(shares, more)[name] >= order(shares, counts)[name]


@given(_trees())
def test_a_share_comes_right_before_those_below_it(
    drawn: tuple[tuple[GlobalShare, ...], tuple[JobCount, ...]],
) -> None:
    shares, counts = drawn
    turn = _turn(shares, counts)
    parents = {share.name: share.parent for share in shares}

    def is_below(name: str, top: str) -> bool:
        return name == top or (name in parents and is_below(parents[name], top))

    for top in parents:
        below = [place for place, name in enumerate(turn) if is_below(name, top)]
        assert turn[below[0]] == top
        assert below == list(range(below[0], below[0] + len(below)))
