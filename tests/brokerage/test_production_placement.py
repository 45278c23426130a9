"""Where jobs go and how many: B36 to B38, the order of tasks, moves and claims."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.moves import FULL
from pilotage.model.documents.world import JobCount
from pilotage.model.records.counters import Claim
from pilotage.model.records.states import QUEUED_JOBS, JobState
from pilotage.model.records.work import File, Replica
from pilotage.policies.brokerage.production import Production
from pilotage.policies.brokerage.production.placement import spread
from pilotage.testing import NOW, federation, jobs, jobs_at, queue, task, world
from pilotage.testing.choices import decide, only_choice, refusal, refused_in


@pytest.mark.parametrize(("state", "counted"), [("activated", True), ("starting", True), ("defined", True)])
def test_b36_more_waiting_than_twice_the_capacity_is_refused(state: str, counted: bool) -> None:
    house = federation([queue()])
    full = jobs_at("Q", running=15, **{state: 30})
    over = jobs_at("Q", running=15, **{state: 31})
    assert refused_in(world(house, task(), job_counts=full), "B36") == set()
    assert refused_in(world(house, task(), job_counts=over), "B36") == ({"Q"} if counted else set())


def test_b36_the_limit_is_never_below_nqueue_limit_site() -> None:
    house = federation([queue()])
    assert refused_in(world(house, task(), job_counts=jobs_at("Q", activated=20)), "B36") == set()
    assert refused_in(world(house, task(), job_counts=jobs_at("Q", activated=21)), "B36") == {"Q"}


def test_b36_b31_assigned_jobs_count_only_where_input_is_missing() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY")])
    asked = task()
    job_counts = jobs_at("NEAR", assigned=21) + jobs_at("FAR", assigned=21)
    assert refused_in(world(house, asked, job_counts=job_counts), "B36") == set()
    reading = world(
        house,
        asked,
        job_counts=job_counts,
        jobs=jobs(asked, inputs=("in",)),
        files=(File(name="in", size=1, checksum=""),),
        replicas=(Replica(file="in", storage="HOME-DISK"),),
    )
    assert refused_in(reading, "B36") == {"FAR"}


def test_b36_says_the_limit_and_what_waits() -> None:
    state = world(federation([queue()]), task(), job_counts=jobs_at("Q", activated=41, running=20))
    found = refusal(only_choice(state), "B36")
    assert (found.need, found.have, found.mend) == (40.0, (41.0,), "wait")


@pytest.mark.parametrize("waiting", [20, 21])
def test_b37_jobs_whose_queues_are_all_full_are_pending_for_an_hour(waiting: int) -> None:
    """B36 skips queues, too."""
    decision = decide(world(federation([queue()]), task(), job_counts=jobs_at("Q", activated=waiting)))
    (choice,) = decision.choices
    (move,) = decision.moves
    assert (move.source, move.target, move.ids) == (JobState.DEFINED, JobState.PENDING, (1,))
    assert (move.changes, move.cause) == ({"wake_at": NOW + 3600}, FULL)
    assert (choice.left, choice.jobs, dict(choice.placed)) == (0, (1,), {})


def test_b37_no_queue_left_for_other_reasons_is_an_hour_of_waiting() -> None:
    asked = task(ram=4000)
    decision = decide(world(federation([queue(max_memory=100)]), asked, jobs=jobs(asked, 3)))
    (move,) = decision.moves
    assert (move.target, move.ids, move.changes) == (JobState.PENDING, (1, 2, 3), {"wake_at": NOW + 3600})
    assert decision.choices[0].left == 0


def test_b37_a_full_queue_that_something_else_refuses_too_does_not_hold_jobs_back() -> None:
    state = world(federation([queue(max_memory=100)]), task(ram=4000), job_counts=jobs_at("Q", activated=21))
    assert decide(state).moves[0].target is JobState.PENDING


def test_b37_the_best_ten_take_jobs_and_ties_are_drawn_with_the_worlds_seed() -> None:
    house = federation([queue(f"Q{number:02}") for number in reversed(range(12))])
    asked = task()
    state = world(house, asked, jobs=jobs(asked, 240))
    choice = only_choice(state)
    assert choice.placed == dict.fromkeys(choice.candidates.queues[:10], 20)
    assert choice.left == 40, "the other two have room: these jobs go in the next pass"
    orders = {only_choice(replace(state, seed=seed)).candidates.queues for seed in range(20)}
    assert len(orders) > 10
    first = Counter(queue for order in orders for queue in order[:10])
    assert len(first) == 12


def test_b37_ties_are_drawn_anew_for_each_group() -> None:
    """Of 186 equal queues the first ten by the alphabet got everything."""
    house = federation([queue(f"Q{number:03}", num_slots=1000) for number in range(186)])
    work = [task(number) for number in range(1, 61)]
    best = [choice.candidates.queues[0] for choice in decide(world(house, *work)).choices]
    assert len(set(best)) == 60
    assert best != sorted(best)


def test_b37_a_queue_without_room_takes_no_place_among_the_best() -> None:
    house = federation([queue("FULL", num_slots=10), queue("OPEN")], constants={"max_candidates": 1})
    choice = only_choice(
        world(house, task(), job_counts=jobs_at("FULL", activated=20) + jobs_at("OPEN", activated=19))
    )
    assert choice.placed == {"OPEN": 1}


def test_b38_jobs_are_spread_by_falling_weight() -> None:
    house = federation([queue("BIG", num_slots=29), queue("SMALL", num_slots=9)])
    asked = task()
    choice = only_choice(world(house, asked, jobs=jobs(asked, 40)))
    assert choice.placed == {"BIG": 35, "SMALL": 5}


def test_b38_jobs_placed_in_this_cycle_count_at_once() -> None:
    house = federation([queue("A"), queue("B")])
    work = [task(number) for number in range(1, 5)]
    placed = [next(iter(choice.placed)) for choice in decide(world(house, *work)).choices]
    assert set(placed[:2]) == set(placed[2:]) == {"A", "B"}


def test_b38_a_small_empty_federation_fills_up_and_the_rest_is_pending() -> None:
    house = federation([queue("A"), queue("B")])
    asked = task()
    decision = decide(world(house, asked, jobs=jobs(asked, 1000)))
    assert decision.choices[0].placed == {"A": 20, "B": 20}
    by_state = Counter[object]()
    for move in decision.moves:
        by_state[move.target] += len(move.ids)
    assert by_state == {JobState.ACTIVATED: 40, JobState.PENDING: 960}
    assert decision.moves[-1].ids == tuple(range(41, 1001)), "the oldest jobs have the room"


def test_b38_declared_slots_take_twice_as_many_waiting_jobs() -> None:
    house = federation([queue("A", num_slots=1000), queue("B", num_slots=1000)])
    asked = task()
    choice = only_choice(world(house, asked, jobs=jobs(asked, 5000)))
    assert choice.placed == {"A": 2000, "B": 2000}
    assert (len(choice.jobs), choice.left) == (5000, 0), "a thousand are pending"


def test_tasks_go_by_priority_then_age() -> None:
    house = federation([queue(num_slots=0)], constants={"nqueue_limit_site": 1})
    low, old, young = task(1, priority=10), task(2, priority=20), task(3, priority=20)
    waiting = jobs(low, first=1) + jobs(young, first=3) + jobs(old, first=2)
    decision = decide(world(house, low, old, young, jobs=waiting))
    assert [choice.task for choice in decision.choices] == [2, 3, 1]
    assert [dict(choice.placed) for choice in decision.choices] == [{"Q": 1}, {}, {}]


def test_the_oldest_jobs_go_to_the_best_queue() -> None:
    house = federation([queue("A", max_pilots=1), queue("B", num_slots=30)])
    asked = task()
    decision = decide(world(house, asked, jobs=tuple(reversed(jobs(asked, 62)))))
    assert [(move.changes["queue"], move.ids[0], move.ids[-1]) for move in decision.moves] == [
        ("B", 1, 60),
        ("A", 61, 62),
    ]


def test_input_at_the_queue_activates_and_missing_input_assigns() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY", num_slots=1000)])
    asked = task()
    state = world(
        house,
        asked,
        jobs=jobs(asked, 2, inputs=("in",)),
        files=(File(name="in", size=1, checksum=""),),
        replicas=(Replica(file="in", storage="HOME-DISK"),),
    )
    (move,) = decide(state).moves
    assert (move.changes["queue"], move.target) == ("FAR", JobState.ASSIGNED)
    assert move.claims == (
        Claim(counter="jobs_by_queue", key=("FAR", "default"), states=QUEUED_JOBS, limit=2000),
    )


def test_local_jobs_claim_their_room_among_all_that_waits_but_the_assigned() -> None:
    (move,) = decide(world(federation([queue()]), task())).moves
    assert move.target is JobState.ACTIVATED
    (claim,) = move.claims
    assert set(claim.states) == {JobState.DEFINED, JobState.ACTIVATED, JobState.STARTING}
    assert claim.limit == 20


def test_jobs_of_one_task_with_input_at_other_places_are_other_groups() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY")])
    asked = task()
    state = world(
        house,
        asked,
        jobs=jobs(asked, 2, inputs=("a",)) + jobs(asked, 2, first=3, inputs=("b",)) + jobs(asked, 1, first=5),
        files=(File(name="a", size=1, checksum=""), File(name="b", size=1, checksum="")),
        replicas=(Replica(file="a", storage="HOME-DISK"), Replica(file="b", storage="AWAY-DISK")),
    )
    decision = decide(state)
    assert [choice.jobs for choice in decision.choices] == [(1, 2), (3, 4), (5,)]
    for number, at in enumerate(("NEAR", "FAR")):
        moves = [move for move in decision.moves if move.choice == number]
        assert {move.changes["queue"] == at for move in moves if move.target is JobState.ACTIVATED} == {True}
        assert at not in {move.changes["queue"] for move in moves if move.target is JobState.ASSIGNED}


def test_only_defined_jobs_are_brokered_and_unknown_queues_are_not_counted() -> None:
    state = world(
        federation([queue()]),
        task(),
        jobs=(replace(jobs(task())[0], state=JobState.RUNNING),),
        job_counts=(JobCount(queue="", share="default", state=JobState.DEFINED, jobs=5),),
    )
    assert not decide(state).choices


def test_a_job_without_its_task_is_an_error() -> None:
    with pytest.raises(ValueError, match="job 1 belongs to task 1, which this world does not hold"):
        decide(world(federation([queue()]), jobs=jobs(task())))


def test_options_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="speed: there is no such option"):
        Production({"speed": 11})


@given(
    jobs_to_place=st.integers(1, 60),
    bases=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    rooms=st.data(),
)
def test_b38_spreading_equals_one_job_after_another(
    jobs_to_place: int, bases: list[int], rooms: st.DataObject
) -> None:
    room = rooms.draw(st.lists(st.integers(0, 25), min_size=len(bases), max_size=len(bases)))
    # Small whole numbers make equal weights common, which is where the order counts.
    weights = np.array(bases, dtype=float)[:, None] / (np.arange(max(1, *room, jobs_to_place)) // 2 * 1.0 + 3)
    weights -= np.arange(weights.shape[1]) * 1e-9
    taken = Counter[int]()
    for _ in range(jobs_to_place):
        open_ = [place for place in range(len(bases)) if taken[place] < room[place]]
        if open_:
            taken[max(open_, key=lambda place: (weights[place, taken[place]], -place))] += 1
    assert spread(jobs_to_place, weights, np.array(room)) == [taken[place] for place in range(len(bases))]
