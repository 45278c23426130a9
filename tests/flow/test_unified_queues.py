"""B2 in a running service: what is done to a unified queue reaches its pseudo-queues."""

from collections import Counter
from dataclasses import replace

import pytest

from pilotage.flow.calls.administration import federation_changes
from pilotage.flow.calls.pilots.match import match
from pilotage.flow.calls.places import circuit_breakers, conditions, restrictions
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.restrictions import Restriction, RestrictionMode
from pilotage.model.records.states import JobState, PilotState

from .house import FakeElement, House, attempts
from .test_guards_f2_f3 import black_hole, is_closed
from .test_restrictions import at_work

J = JobState


@pytest.fixture
def unified(house: House) -> House:
    """A unified queue with a computing element and two pseudo-queues; its jobs run at the first, of the usual
    name."""
    declared = house.store.declared_federation()
    (north,) = declared.queues
    bare = replace(north, parent="uni", computing_element=None, num_slots=None)
    above = replace(north, name="uni", computing_element=ComputingElement(kind="fake", max_pilots=3))
    queues = (above, bare, replace(bare, name="wide", cores=8))
    house.store.save_federation(replace(declared, queues=queues), "test")
    return house


def restrict(house: House, mode: RestrictionMode) -> restrictions.Remaining:
    asked = Restriction(
        kind="queue", name="uni", mode=mode, because="new disks", actor="olga", since=house.now
    )
    return restrictions.restrict(house.runtime, asked)


def statuses(house: House) -> dict[str, str]:
    return {one.name: one.status for one in house.store.queries.queues()}


@pytest.mark.parametrize("mode", ["close", "drain"])
def test_b2_closing_a_unified_queue_closes_its_pseudo_queues(unified: House, mode: RestrictionMode) -> None:
    task = at_work(unified)
    left = restrict(unified, mode)
    assert (left.waiting, left.running) == (1, 1), "it tells what its pseudo-queues still have"
    assert not unified.match(unified.pilot()).works
    seen = {one.queue.name: one for one in conditions.of_queues(unified.runtime)}
    assert all("new disks" in one.restriction for one in seen.values())
    assert len({*statuses(unified).values()}) == 1
    still = restrictions.still_shut(unified.runtime, "queue", "north-queue")
    assert still.startswith(f"queue uni is {'closed' if mode == 'close' else 'drained'}")
    unified.take("watch")
    unified.take("provision")
    waiting = J.ACTIVATED if mode == "close" else J.DEFINED
    assert unified.states(task) == {waiting: 1, J.RUNNING: 1}
    assert not [one for one in unified.store.queries.live_pilots() if one.reference]
    restrictions.lift(unified.runtime, "queue", "uni", "olga")
    assert {*statuses(unified).values()} == {"online"}


def test_b2_pseudo_queues_get_pilots_by_the_unified_element_and_share_its_limit(unified: House) -> None:
    unified.element = FakeElement()
    unified.task(command=("run",), jobs=9, walltime=60)
    unified.task(command=("run",), jobs=9, walltime=60, cores=8)
    for _ in range(5):
        for name in ("broker", "stage", "provision"):
            unified.take(name)
        unified.now += 61
    live = unified.store.queries.live_pilots()
    assert len(live) == 3
    assert Counter(one.queue for one in live).keys() <= {"north-queue", "wide"}
    assert {one.state for one in live} == {PilotState.SUBMITTED}
    told = conditions.of_queues(unified.runtime, ["wide"])[0].pilot_limits
    assert [(one.queues, one.pilots) for one in told] == [(("north-queue", "uni", "wide"), 3)]


def test_b2_another_element_of_a_unified_queue_is_an_effect_at_its_pseudo_queues(unified: House) -> None:
    declared = unified.store.declared_federation()
    above, *others = declared.queues
    elsewhere = replace(above, computing_element=ComputingElement(kind="slurm"))
    unified.pilot(queue="wide", broker="")
    review = federation_changes.review(unified.store, replace(declared, queues=(elsewhere, *others)))
    assert [one.subject for one in review.effects] == ["queue wide"]
    assert "from another batch system" in review.effects[0].change


def test_b2_a_change_of_the_unified_queue_is_one_of_its_pseudo_queues(unified: House) -> None:
    declared = unified.store.declared_federation()
    above, *others = declared.queues
    before = {one.changed for one in conditions.of_queues(unified.runtime)}
    changed = replace(above, max_walltime=9999)
    unified.store.save_federation(replace(declared, queues=(changed, *others)), "test")
    assert before.isdisjoint({one.changed for one in conditions.of_queues(unified.runtime)})


def test_b2_lifting_a_breaker_at_one_lifts_it_at_all(unified: House) -> None:
    declared = unified.store.declared_federation()
    south = replace(declared.queues[0], name="south-queue", site="south", storage="south-disk")
    unified.store.save_federation(replace(declared, queues=(*declared.queues, south)), "test")
    task, _ = black_hole(unified)
    assert is_closed(unified, task, "north-queue")
    assert is_closed(unified, task, "wide")
    circuit_breakers.lift(unified.runtime, "wide", "olga")
    assert not is_closed(unified, task, "north-queue")


def test_b2_a_pilot_without_work_leaves_for_jobs_of_the_other_pseudo_queues(unified: House) -> None:
    (here, *_) = [unified.pilot() for _ in range(3)]
    federation = unified.store.federation()
    queue = next(one for one in federation.queues if one.name == "north-queue")

    def stays() -> float:
        return unified.runtime.idle_timeouts.seconds(federation, queue, unified.now, pilot=here)

    assert stays() > 0
    unified.task(command=("run",), jobs=90, walltime=60, cores=8)
    unified.take("broker")
    assert stays() == 0
    assert unified.runtime.idle_timeouts.seconds(federation, replace(queue, status="paused"), unified.now) > 0


def test_b2_pilots_of_the_unified_queue_get_what_its_pseudo_queues_would_give(unified: House) -> None:
    """Others started them in its name: each gets what fits its resources, of any pseudo-queue."""
    narrow = unified.task(command=("run",), jobs=2, walltime=60)
    wide = unified.task(command=("run",), jobs=2, walltime=60, cores=8)
    unified.take("broker")
    small, large = unified.pilot(queue="uni", cores=1), unified.pilot(queue="uni")
    given: dict[int, list[tuple[int, int]]] = {small: [], large: []}
    for pilot, cores in ((small, 1), (large, 8)):
        while found := attempts(match(unified.runtime, pilot, cores, 0, 86400, 1)):
            given[pilot] += found
            unified.report(pilot, "running", found)
            unified.report(pilot, "done", found)
    assert len(given[small]) == 2
    assert unified.states(narrow).get(J.ACTIVATED, 0) == 0
    assert len(given[large]) == 2
    assert unified.states(wide).get(J.ACTIVATED, 0) == 0
    where = {unified.store.queries.job(job).queue for job, _ in given[large]}  # type: ignore[union-attr]
    assert where == {"wide"}
    assert {one.queue for one in unified.store.queries.live_pilots()} == {"uni"}


def test_b2_a_closed_pseudo_queue_gives_nothing_to_pilots_of_the_unified_queue(unified: House) -> None:
    unified.task(command=("run",), jobs=2, walltime=60)
    unified.take("broker")
    asked = Restriction(
        kind="queue", name="north-queue", mode="close", because="x", actor="olga", since=unified.now
    )
    restrictions.restrict(unified.runtime, asked)
    assert not unified.match(unified.pilot(queue="uni")).works


def test_b2_jobs_that_succeed_under_the_unified_name_outweigh_failures_of_their_pseudo_queue(
    unified: House,
) -> None:
    unified.task(command=("run",), jobs=4, walltime=60)
    unified.take("broker")
    pilot = unified.pilot(queue="uni")
    (first, *others) = attempts(unified.match(pilot, 3))
    unified.report(pilot, "failed", [first])
    (failure,) = unified.store.snapshots.failures(unified.now)
    assert (failure.queue, failure.against) == ("north-queue", "queue")
    unified.report(pilot, "done", others)
    assert not unified.store.snapshots.failures(unified.now), "it counts against its task alone"
