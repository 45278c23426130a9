"""The director: how many pilots, of which kind and size (P1 to P4, P7, P10)."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.decision import Begin, Create, Decision
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import TaskQueue
from pilotage.model.records.federation import ComputingElement, DirectorConstants
from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.model.records.work import NewPilot, Pilot
from pilotage.model.values.identity import Identity
from pilotage.policies.pilots import director
from pilotage.testing import ALICE, NOW, federation, pilot, queue, requirements, world


def line(jobs: int, priority: int = 500, queue_name: str = "Q", **asked: Any) -> TaskQueue:
    return TaskQueue(queue=queue_name, requirements=requirements(**asked), jobs=jobs, priority=priority)


def pilots(decision: Decision) -> list[NewPilot]:
    made = [record for change in decision.changes if isinstance(change, Create) for record in change.records]
    assert all(isinstance(record, NewPilot) for record in made)
    return [record for record in made if isinstance(record, NewPilot)]


def test_p1_emptied_task_queues_and_queues_without_a_computing_element_count_for_nothing() -> None:
    served, bare = queue(max_pilots=1000), queue("bare", computing_element=None)
    alone = world(federation=federation([served, bare]), task_queues=(line(3),))
    crowd = tuple(line(0, 100_000, cpu_time=segment) for segment in range(60))
    crowded = replace(alone, task_queues=(*crowd, line(3), line(9, 9000, "bare"), line(5, queue_name="gone")))
    assert director.provision(crowded).changes == director.provision(alone).changes
    assert pilots(director.provision(alone))


def test_p2_nothing_waiting_nothing_submitted() -> None:
    assert director.provision(world()).changes == ()


@pytest.mark.parametrize("status", ["offline", "paused"])
def test_a_queue_that_starts_nothing_gets_no_pilots(status: str) -> None:
    fed = federation([queue(status=status)])
    assert director.provision(world(federation=fed, task_queues=(line(5),))).changes == ()


def test_p3_the_mean_follows_priority_and_jobs_with_the_boost_of_short_ones() -> None:
    lines = (line(30, 600, cpu_time=6000), line(10, 200, cpu_time=10_800_000))
    decision = director.provision(world(task_queues=lines))
    means = {note["jobs"]: note["mean"] for note in decision.notes["task_queues"]}
    assert means[30] == pytest.approx(40 * (600 / 800 + 30 / 40) * 1_080_000 / 7200)
    assert means[10] == pytest.approx(40 * (200 / 800 + 10 / 40))


def test_p3_targets_are_drawn_from_a_poisson_distribution() -> None:
    entry = line(10_000, cpu_time=10_800_000)
    draws = [
        director.provision(world(seed=seed, task_queues=(entry,))).notes["task_queues"][0]["target"]
        for seed in range(400)
    ]
    mean = sum(draws) / len(draws)
    variance = sum((draw - mean) ** 2 for draw in draws) / len(draws)
    assert mean == pytest.approx(80, rel=0.05)
    assert variance == pytest.approx(80, rel=0.3)


def test_p4_pilots_that_wait_are_bounded_by_the_jobs() -> None:
    fed = federation([queue(max_pilots=1000)])
    waiting = tuple(pilot(id_, PilotState.SUBMITTED) for id_ in range(1, 6))
    running = (pilot(6), pilot(7))
    made = pilots(
        director.provision(world(federation=fed, task_queues=(line(10),), pilots=waiting + running))
    )
    assert len(made) == int(1.2 * 10) + 4 - 5


def test_p4_pilots_that_waited_too_long_or_for_another_task_queue_do_not_count_as_waiting() -> None:
    fed = federation([queue(max_pilots=1000)])
    old = pilot(1, PilotState.SUBMITTED, created=NOW - 6 * 3600 - 1)
    other = pilot(2, PilotState.CREATED, requirements=requirements(memory=5000))
    made = pilots(director.provision(world(federation=fed, task_queues=(line(10),), pilots=(old, other))))
    assert len(made) == int(1.2 * 10) + 4


def test_p4_a_pilot_that_runs_several_jobs_side_by_side_counts_for_as_many() -> None:
    fed = federation([queue(max_pilots=1000, slots=8)])
    made = pilots(director.provision(world(federation=fed, task_queues=(line(41),))))
    assert len(made) == int(1.2 * 6) + 4


def test_p7_a_fraction_of_the_pilots_is_private() -> None:
    fed = federation(
        [queue(max_pilots=5000)], director=DirectorConstants(private_pilot_fraction=0.25, extra_pilots=0)
    )
    made = pilots(director.provision(world(federation=fed, task_queues=(line(2000),))))
    private = [record for record in made if record.kind == "private"]
    assert len(private) / len(made) == pytest.approx(0.25, abs=0.03)
    assert {record.owner for record in private} == {ALICE}
    assert {record.owner for record in made if record.kind == "generic"} == {Identity(name="generic")}


@pytest.mark.parametrize(("fraction", "kind"), [(0.0, "generic"), (1.0, "private")])
def test_p7_the_ends_of_the_fraction_hold_exactly(fraction: float, kind: str) -> None:
    fed = federation([queue()], director=DirectorConstants(private_pilot_fraction=fraction))
    made = pilots(director.provision(world(federation=fed, task_queues=(line(50),))))
    assert {record.kind for record in made} == {kind}


def test_p7_a_private_task_queue_gets_private_pilots_only() -> None:
    fed = federation([queue()], director=DirectorConstants(private_pilot_fraction=0.0))
    made = pilots(director.provision(world(federation=fed, task_queues=(line(50, private=True),))))
    assert {(record.kind, record.owner) for record in made} == {("private", ALICE)}


def test_p10_pilots_are_recorded_with_their_task_queue_and_size_and_claim_their_place() -> None:
    element = ComputingElement(max_pilots=7, pilot_slots=4, pilot_walltime=90_000)
    fed = federation([queue(computing_element=element, max_walltime=80_000, min_memory=500)])
    entry = line(90, cores=2, memory=2000)
    decision = director.provision(world(federation=fed, task_queues=(entry,)))
    begin, change = decision.changes
    assert begin == Begin(step="provision", last=None)
    assert isinstance(change, Create)
    (claim,) = change.claims
    assert (claim.counter, claim.key, claim.states, claim.limit) == (
        "pilots_by_queue",
        ("Q",),
        LIVE_PILOTS,
        7,
    )
    record = pilots(decision)[0]
    assert (record.queue, record.requirements) == ("Q", entry.requirements)
    assert (record.cores, record.memory, record.walltime) == (8, 8000, 80_000)
    assert (record.site, record.element, record.broker, record.submit_pool) == (
        "HOME",
        "process",
        "",
        "default",
    )


def test_a_pilot_lives_long_enough_for_its_own_task_queue() -> None:
    element = ComputingElement(pilot_walltime=60)
    fed = federation([queue(computing_element=element)])
    made = pilots(director.provision(world(federation=fed, task_queues=(line(1, cpu_time=36_000),))))
    assert {record.walltime for record in made} == {3600}


def test_room_is_shared_so_that_a_small_task_queue_is_not_starved() -> None:
    lines = (line(100_000), line(5, memory=3000))
    served: Counter[str] = Counter()
    for seed in range(40):
        for record in pilots(director.provision(world(seed=seed, task_queues=lines))):
            served[record.requirements] += 1
    assert served[lines[1].requirements] > 40
    assert sum(served.values()) == 40 * 10


@st.composite
def busy_worlds(draw: st.DrawFn) -> tuple[tuple[TaskQueue, ...], tuple[int, ...]]:
    entries = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["Q", "q2"]),
                st.sampled_from([500, 1000, 2000, 4000]),
                st.integers(0, 3000),
                st.integers(1, 1000),
            ),
            unique_by=lambda entry: entry[:2],
            max_size=8,
        )
    )
    lines = tuple(line(jobs, priority, name, memory=memory) for name, memory, jobs, priority in entries)
    return lines, tuple(draw(st.lists(st.integers(0, 5), min_size=2, max_size=2)))


@given(busy_worlds(), st.integers(0, 2**32))
def test_no_queue_is_given_more_pilots_than_it_has_room_for_and_the_order_of_records_is_nothing(
    busy: tuple[tuple[TaskQueue, ...], tuple[int, ...]], seed: int
) -> None:
    lines, live = busy
    present = [
        pilot(10 * index + id_, queue=name)
        for index, name in enumerate(["Q", "q2"])
        for id_ in range(live[index])
    ]
    fed = federation([queue("Q", max_pilots=4), queue("q2", max_pilots=30)])
    first = world(seed=seed, federation=fed, task_queues=lines, pilots=tuple(present))
    made = Counter(record.queue for record in pilots(director.provision(first)))
    assert made["Q"] + live[0] <= max(4, live[0])
    assert made["q2"] + live[1] <= 30
    for entry in lines:
        own = [
            r
            for r in pilots(director.provision(first))
            if (r.queue, r.requirements) == (entry.queue, entry.requirements)
        ]
        assert len(own) <= (int(1.2 * entry.jobs) + 4 if entry.jobs else 0)
    shuffled = replace(first, task_queues=lines[::-1], pilots=tuple(reversed(present)))
    assert to_json(director.provision(shuffled)) == to_json(director.provision(first))


def test_p6_a_queue_whose_pilots_fail_before_they_call_is_left_alone_for_a_while_then_tried_by_one() -> None:
    def failed(number: int, ago: float) -> Pilot:
        return replace(pilot(number, PilotState.FAILED), heartbeat=None, created=NOW - ago, since=NOW - ago)

    def submitted(*known: Pilot) -> int:
        return len(pilots(director.provision(world(task_queues=(line(50),), pilots=known))))

    assert submitted() > 1
    assert submitted(failed(1, 59), failed(2, 59)) == 0
    assert submitted(failed(1, 60), failed(2, 60)) == 1
    assert submitted(failed(1, 300), failed(2, 119)) == 0
    assert submitted(failed(1, 300), failed(2, 120)) == 1
    well = replace(pilot(3, PilotState.FINISHED), heartbeat=NOW - 5, created=NOW - 10, since=NOW - 5)
    assert submitted(failed(1, 59), well) > 1
