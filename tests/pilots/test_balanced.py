"""The balanced director: what is missing, an exact total, breakers where pilots end without work (P12)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.circuit_breakers.empty_pilots import of_nodes
from pilotage.model.documents.decision import Create, Decision, Touch
from pilotage.model.documents.world import JobCount, TaskQueue
from pilotage.model.records.federation import DirectorConstants, Federation
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import NewPilot, Pilot
from pilotage.model.values.identity import Identity
from pilotage.policies.pilots import balanced, circuit_breakers, director
from pilotage.policies.pilots.reports import note_lacking
from pilotage.testing import ALICE, BOB, NOW, federation, pilot, queue, requirements, world


def fed(most: int = 40, **attributes: Any) -> Federation:
    constants = DirectorConstants(policy="balanced", pilots_per_iteration=most)
    queues = [queue("Q", max_pilots=1000, **attributes), queue("q2", max_pilots=1000, **attributes)]
    return federation(queues, director=constants)


def line(jobs: int, priority: int = 500, at: str = "Q", owner: Identity = ALICE, **asked: Any) -> TaskQueue:
    return TaskQueue(queue=at, requirements=requirements(owner, **asked), jobs=jobs, priority=priority)


def made(decision: Decision) -> list[NewPilot]:
    return [
        record
        for change in decision.changes
        if isinstance(change, Create)
        for record in change.records
        if isinstance(record, NewPilot)
    ]


@given(
    st.lists(st.tuples(st.sampled_from(["Q", "q2"]), st.integers(1, 90), st.integers(1, 4000)), max_size=6),
    st.integers(1, 100),
    st.integers(0, 2**32),
)
def test_p12_the_total_is_exactly_what_was_asked_or_what_is_missing(
    lines: list[tuple[str, int, int]], most: int, seed: int
) -> None:
    busy = tuple(line(jobs, priority, at, memory=n) for n, (at, jobs, priority) in enumerate(lines))
    decision = director.provision(world(seed=seed, federation=fed(most), task_queues=busy))
    assert len(made(decision)) == min(most, sum(jobs for _, jobs, _ in lines))


def test_p12_a_small_queue_with_little_room_does_not_lower_the_total() -> None:
    tight = replace(fed(40), queues=(queue("Q", max_pilots=1000), queue("q2", max_pilots=3)))
    busy = (line(500), line(500, 5000, "q2"))
    assert len(made(director.provision(world(federation=tight, task_queues=busy)))) == 40


def test_p12_pilots_count_for_every_task_queue_that_they_could_serve_whatever_they_were_made_for() -> None:
    busy = (line(10, memory=500), line(10, memory=900))
    others = tuple(
        pilot(n, PilotState.SUBMITTED, requirements=requirements(BOB), memory=1000) for n in range(8)
    )
    assert len(made(director.provision(world(federation=fed(), task_queues=busy, pilots=others)))) == 12
    small = tuple(replace(one, memory=600) for one in others)
    decision = director.provision(world(federation=fed(), task_queues=busy, pilots=small))
    assert {
        note_lacking["jobs"] - note_lacking["waiting"]: note_lacking["submitted"]
        for note_lacking in decision.notes["task_queues"]
    } == {
        2: 2,
        10: 10,
    }
    for unfit in ({"cores": 0}, {"walltime": 10}, {"kind": "private", "owner": BOB}, {"queue": "q2"}):
        useless = tuple(replace(one, **unfit) for one in others)
        found = made(director.provision(world(federation=fed(), task_queues=busy, pilots=useless)))
        assert len(found) == 20, unfit


def test_p12_a_submitted_pilot_counts_for_all_jobs_that_it_will_take() -> None:
    short, short_too = line(6, cpu_time=6000), line(3, cpu_time=6000, memory=9)

    def missing(*waiting: TaskQueue, pilots: tuple[Pilot, ...] = (), **attributes: Any) -> int:
        here = world(federation=fed(**attributes), task_queues=waiting, pilots=pilots)
        return len(made(director.provision(here)))

    submitted = (pilot(1, PilotState.SUBMITTED),)
    assert (missing(short), missing(short, pilots=submitted)) == (1, 0), "an hour of work for one slot"
    assert missing(replace(short, jobs=7)) == 2
    assert missing(replace(short, jobs=13), slots=2) == 2, "each slot takes six"
    assert missing(replace(short, jobs=7), pilots=submitted) == 1
    assert missing(replace(short, jobs=3), short_too) == 1, "one pilot may take the jobs of both"
    assert missing(replace(short, jobs=3), line(3, cpu_time=6000, owner=BOB)) == 2, "a pilot may be private"
    assert missing(line(4)) == 4, "jobs as long as that share no slot"
    assert missing(short, pilots=(replace(submitted[0], walltime=1200),)) == 1
    running = (replace(submitted[0], state=PilotState.RUNNING),)
    assert missing(line(8, cpu_time=6000), pilots=running) == 2, "an idle slot counts for one job"
    assert missing(line(1, cpu_time=6000), pilots=running) == 0


def test_p12_the_next_iteration_is_early_once_all_pilots_of_the_last_have_called() -> None:
    def wait(*pilots: Pilot) -> float:
        here = world(federation=fed(), task_queues=(line(5),), pilots=pilots, iterated=NOW - 10)
        return director.due_in(here)

    called = pilot(1, created=NOW - 10)
    waiting = pilot(2, PilotState.SUBMITTED, created=NOW - 10, heartbeat=None)
    assert (wait(called), wait(called, waiting), wait()) == (0, 50, 50)


def test_p12_none_counts_twice_and_private_ones_are_given_out_first() -> None:
    busy = (line(4), line(4, private=True))
    generic = tuple(pilot(n, PilotState.SUBMITTED) for n in range(4))
    private = tuple(pilot(n, PilotState.SUBMITTED, kind="private", owner=ALICE) for n in range(10, 14))
    here = world(federation=fed(), task_queues=busy, pilots=generic + private)
    assert made(director.provision(here)) == []
    assert len(made(director.provision(replace(here, pilots=private)))) == 4


def test_p12_adapts_to_what_runs_busy_pilots_do_not_count_and_idle_ones_do() -> None:
    running = tuple(pilot(n, matched=3) for n in range(10))

    def missing(busy: int) -> int:
        counts = (JobCount(queue="Q", share="default", state=JobState.RUNNING, jobs=busy),)
        here = world(federation=fed(), task_queues=(line(20),), pilots=running, job_counts=counts)
        return len(made(director.provision(here)))

    assert (missing(10), missing(4), missing(0)) == (20, 14, 10)


def empty(number: int, made_ago: float, ended_ago: float, **changes: Any) -> Pilot:
    one = pilot(number, PilotState.FINISHED, created=NOW - made_ago, since=NOW - ended_ago)
    return replace(one, matched=0, **changes)


def test_p12_backs_off_where_pilots_ended_without_work_and_tries_now_and_then() -> None:
    def given_to(at: str, *pilots: Pilot) -> int:
        here = world(federation=fed(), task_queues=(line(9), line(9, at="q2")), pilots=pilots)
        return sum(one.queue == at for one in made(director.provision(here)))

    assert given_to("Q") == 9
    same = [empty(n, 100, 30) for n in range(5)]
    assert given_to("Q", *same) == 0
    assert given_to("q2", *same) == 9
    assert given_to("Q", *[replace(one, since=NOW - 60) for one in same]) == 1
    twice = [empty(1, 900, 800), empty(2, 200, 119)]
    assert given_to("Q", *twice) == 0
    assert given_to("Q", twice[0], replace(twice[1], since=NOW - 120)) == 1
    probing = pilot(7, PilotState.SUBMITTED, created=NOW - 5)
    assert given_to("Q", twice[0], replace(twice[1], since=NOW - 120), probing) == 0
    useful = replace(pilot(8), created=NOW - 50, matched=1)
    assert given_to("Q", *twice, useful) == 8


GPU: dict[str, Any] = {"gpus": 2}
CONTAINER: dict[str, Any] = {"container": True}


def lacking(number: int, made_ago: float, **changes: Any) -> Pilot:
    """A pilot sent for GPUs that has told that its node has none."""
    asked = requirements(ALICE, **GPU)
    one = pilot(number, created=NOW - made_ago, since=NOW - made_ago + 10, requirements=asked, lacks="GPUs")
    return replace(one, **changes)


def sent(lines: tuple[TaskQueue, ...], *pilots: Pilot) -> Decision:
    """What the director decides where pilots found what they found."""
    lacking_nodes = of_nodes(pilots, fed().director)
    here = world(federation=fed(), task_queues=lines, pilots=pilots, lacking_nodes=lacking_nodes)
    return director.provision(here)


def for_gpus(*pilots: Pilot, plain: bool = False) -> int:
    """Pilots made for GPUs, or for plain work, where both wait."""
    texts = [one.requirements for one in made(sent((line(9), line(6, **GPU)), *pilots))]
    return sum((text == requirements(ALICE)) == plain for text in texts)


def test_p12_running_pilots_count_by_what_their_nodes_have_and_waiting_ones_by_what_was_promised() -> None:
    has = [replace(lacking(n, 30), lacks="") for n in range(4)]
    assert (for_gpus(*has), for_gpus(*has, plain=True)) == (5, 6)
    without = [lacking(n, 4000) for n in range(4)]
    assert (for_gpus(*without), for_gpus(*without, plain=True)) == (1, 5)
    coming = [replace(one, state=PilotState.SUBMITTED, heartbeat=None) for one in has]
    known = (*coming, lacking(9, 4000, lacks="", state=PilotState.FINISHED, matched=1))
    assert (for_gpus(*known), for_gpus(*known, plain=True)) == (5, 6)


def test_p12_backs_off_from_nodes_that_lack_what_pilots_were_sent_for_though_they_found_other_work() -> None:
    assert for_gpus(plain=True) == 9
    busy = lacking(1, 40, matched=3)
    assert for_gpus(busy) == 0
    assert for_gpus(busy, plain=True) == 8
    assert for_gpus(lacking(1, 70, matched=3)) == 1
    twice = (lacking(1, 900, matched=3), lacking(2, 100))
    assert for_gpus(*twice) == 0
    assert for_gpus(twice[0], lacking(2, 131)) == 1
    tries = replace(lacking(3, 5), state=PilotState.SUBMITTED, heartbeat=None, lacks="")
    assert for_gpus(twice[0], lacking(2, 131), tries) == 0
    useful = lacking(4, 50, lacks="", matched=1)
    assert for_gpus(*twice, useful) == 6


def test_p12_one_pilot_looks_for_what_nobody_has_looked_for_there_yet() -> None:
    assert for_gpus() == 1
    other = lacking(1, 40, lacks="", requirements=requirements(ALICE))
    assert for_gpus(other) == 1, "it was sent for something else, and has no GPU in its slot"
    coming = lacking(2, 40, lacks="", state=PilotState.SUBMITTED, heartbeat=None)
    assert for_gpus(coming) == 0, "it will tell"
    assert for_gpus(replace(coming, created=NOW - balanced.PATIENCE)) == 6, "a busy batch system"
    assert for_gpus(replace(coming, state=PilotState.RUNNING, heartbeat=NOW)) == 6
    assert for_gpus(replace(coming, state=PilotState.FINISHED, heartbeat=NOW, matched=1)) == 6
    assert for_gpus(replace(coming, state=PilotState.CANCELLED)) == 1, "it never told"


def test_p12_an_operator_who_lifts_the_breaker_gets_one_probe() -> None:
    once = lacking(1, 40, state=PilotState.FINISHED)
    here = world(federation=fed(), task_queues=(line(6, **GPU),), pilots=(once,))
    assert len(made(director.provision(here))) == 1


def test_p12_a_probe_is_one_pilot_for_all_task_queues_with_the_need() -> None:
    waiting = (line(5, memory=500, **CONTAINER), line(5, memory=900, **CONTAINER))
    asked = requirements(ALICE, **CONTAINER)
    assert len(made(sent(waiting))) == 1
    assert len(made(sent(waiting, lacking(1, 200, requirements=asked, lacks="containers", matched=1)))) == 1


def test_p12_what_a_breaker_holds_back_is_told() -> None:
    (found,) = of_nodes((lacking(1, 40, matched=3, node="n1"), lacking(2, 40, node="n1")), fed().director)
    assert (found.place, found.failures) == (("Q", "GPUs"), 1)
    assert found.error == "too few GPUs (1 node checked)"
    assert NOW < found.until <= NOW + 60
    for policy in ("balanced", "taskqueue"):
        constants = replace(fed().director, policy=policy)
        here = world(federation=replace(fed(), director=constants), lacking_nodes=(found,))
        assert circuit_breakers.of_empty_pilots(here) == (found,), "jobs go elsewhere under each policy"


def test_p12_nodes_of_which_one_has_it_open_no_breaker_while_its_pilot_runs() -> None:
    has = lacking(1, 7000, lacks="")
    bad = [lacking(number, 10 * number) for number in (2, 3)]
    assert of_nodes((has, *bad), fed().director) == ()
    ended = replace(has, state=PilotState.FINISHED, since=NOW - 100)
    (found,) = of_nodes((ended, *bad), fed().director)
    assert found.failures == 2
    later = replace(ended, created=NOW - 5)
    assert of_nodes((later, *bad), fed().director) == ()


def test_p12_a_pilot_whose_node_lacks_what_it_was_sent_for_keeps_none_from_other_work() -> None:
    ended = lacking(1, 40, state=PilotState.FINISHED)
    assert (for_gpus(ended), for_gpus(ended, plain=True)) == (0, 9)
    empty = replace(ended, lacks="")
    assert for_gpus(empty, plain=True) == 0


@pytest.mark.parametrize(
    ("asked", "gpus", "containers", "lacks"),
    [
        (GPU, 2, False, ""),
        (GPU, 1, True, "GPUs"),
        (CONTAINER, 0, False, "containers"),
        (GPU | CONTAINER, 0, False, "GPUs and containers"),
        ({}, 0, False, ""),
    ],
)
def test_p12_what_a_pilot_tells_of_its_node_is_held_against_its_own_task_queue(
    asked: dict[str, Any], gpus: int, containers: bool, lacks: str
) -> None:
    one = pilot(1, requirements=requirements(ALICE, **asked))
    noted = note_lacking(one, gpus, containers, NOW, 0)
    told = [change.changes for change in noted.changes if isinstance(change, Touch)] if noted else []
    assert told == ([{"lacks": lacks}] if lacks else [])
    assert note_lacking(replace(one, requirements=""), 0, False, NOW, 0) is None
