"""Jobs that wait are bound to queues whose pilots are idle."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pilotage.flow.brokerages import Brokerages
from pilotage.flow.calls.work.changes import Wanted, set_fields
from pilotage.flow.planning import plan
from pilotage.flow.steps.rebind import rebound
from pilotage.model.records.federation import BindingConstants, ComputingElement, Queue
from pilotage.model.records.spec import Binding
from pilotage.model.records.states import JobState
from pilotage.model.records.work import InputFile
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage.production import Production
from tests.reading import world_of

from .house import House, attempts, federation, meanwhile

J = JobState


@pytest.fixture
def two_queues(house: House) -> House:
    """North's queue and another one at its site, each with pilots of its own."""
    declare(house)
    return house


def declare(house: House, **other: Any) -> None:
    known = federation(house.place)
    # With num_slots, a queue keeps its jobs.
    north = replace(known.queues[0], num_slots=None)
    values = {"name": "other-queue", "computing_element": ComputingElement(kind="fake", pilot_slots=4)}
    queue: Queue = replace(north, **{**values, **other})
    house.store.save_federation(replace(known, name="flow", queues=(north, queue)), "test")


def waiting(house: House, jobs: int, **spec: Any) -> int:
    """A task whose jobs wait at north's queue since a minute."""
    declare(house, status="brokeroff")
    # Where a task names its inputs, there is a job for each.
    task = house.task(**(spec if "inputs" in spec else {"jobs": jobs, **spec}))
    house.take("broker")
    declare(house)
    assert house.states(task) == {J.ACTIVATED: jobs}
    house.now += 60
    return task


def queues(house: House, task: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for job in house.store.queries.jobs(task, None, 100):
        found[job.queue] = found.get(job.queue, 0) + 1
    return found


def idle_pilot(house: House, queue: str = "other-queue") -> int:
    """A pilot that has asked and was given nothing."""
    pilot = house.pilot(queue=queue)
    assert attempts(house.match(pilot)) == []
    return pilot


def test_as_many_jobs_as_there_are_idle_slots_go_to_an_idle_pilot_s_queue(two_queues: House) -> None:
    task = waiting(two_queues, 12)
    pilot = idle_pilot(two_queues)
    assert two_queues.take("rebind") == 8, "four jobs leave one queue and come to another"
    assert queues(two_queues, task) == {"north-queue": 8, "other-queue": 4}
    assert len(attempts(two_queues.match(pilot))) == 4
    assert two_queues.take("rebind") == 0, "its slots are taken"


def test_a_job_that_was_bound_again_keeps_its_attempt_and_can_say_why(two_queues: House) -> None:
    task = waiting(two_queues, 1)
    pilot = idle_pilot(two_queues)
    two_queues.take("rebind")
    assert attempts(two_queues.match(pilot)) == [(1, 1)]
    newest = two_queues.store.queries.task_choices(task, 10)[0]
    assert (newest.placed, newest.considered) == ({"other-queue": 1}, 1)


@pytest.mark.parametrize("kept", [{"status": "paused"}, {"disable_reassign": True}, {"num_slots": 100}])
def test_a_queue_that_keeps_its_jobs_loses_none_to_idle_pilots(
    two_queues: House, kept: dict[str, Any]
) -> None:
    waiting(two_queues, 3)
    known = two_queues.store.federation()
    here, *others = known.queues
    two_queues.store.save_federation(replace(known, queues=(replace(here, **kept), *others)), "test")
    idle_pilot(two_queues)
    assert two_queues.take("rebind") == 0


def test_nothing_moves_without_an_idle_pilot(two_queues: House) -> None:
    waiting(two_queues, 3)
    assert two_queues.take("rebind") == 0
    two_queues.pilot(queue="other-queue")
    assert two_queues.take("rebind") == 0, "one that has not called home yet is not idle"


def test_a_job_waits_a_little_for_its_own_pilots_first(two_queues: House) -> None:
    waiting(two_queues, 3)
    idle_pilot(two_queues)
    two_queues.now -= 56
    assert two_queues.take("rebind") == 0


def test_what_the_queue_refuses_or_would_have_to_fetch_stays_where_it_is(two_queues: House) -> None:
    task = waiting(two_queues, 2, ram=4000)
    idle_pilot(two_queues)
    declare(two_queues, max_memory=1000)
    assert two_queues.take("rebind") == 0
    declare(two_queues, site="south", storage="south-disk")
    inputs = (InputFile(name="a", size=1, replicas=("north-disk",)),)
    far = waiting(two_queues, 1, inputs=inputs)
    declare(two_queues, site="south", storage="south-disk")
    two_queues.take("rebind")
    assert queues(two_queues, far) == {"north-queue": 1}
    assert queues(two_queues, task) == {"other-queue": 2}


def test_what_the_queue_refuses_keeps_nothing_from_it_that_waits_behind(two_queues: House) -> None:
    refused, fitting = waiting(two_queues, 4, ram=4000), waiting(two_queues, 5)
    declare(two_queues, max_memory=1000)
    idle_pilot(two_queues)
    two_queues.take("rebind")
    assert queues(two_queues, refused) == {"north-queue": 4}
    assert queues(two_queues, fitting) == {"north-queue": 1, "other-queue": 4}


def test_b17_a_job_whose_inputs_are_too_large_keeps_no_other_of_its_task_where_it_is(
    two_queues: House,
) -> None:
    sizes = {**dict.fromkeys("abcd", 50 * 10**9), **dict.fromkeys("efgh", 1)}
    inputs = tuple(InputFile(name=name, size=size, replicas=("north-disk",)) for name, size in sizes.items())
    task = waiting(two_queues, 8, inputs=inputs)
    declare(two_queues, max_workdir=10_000)
    idle_pilot(two_queues)
    two_queues.take("rebind")
    moved = [job for job in two_queues.store.queries.jobs(task, None, 100) if job.queue == "other-queue"]
    assert sorted(job.id for job in moved) == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("spec", "binding", "moved"),
    [
        ({"binding": "early"}, {}, 0),
        ({}, {"by_vo": {"ligo": "early"}}, 0),
        ({"binding": "elastic"}, {"by_vo": {"ligo": "early"}}, 8),
        ({}, {"default": "early"}, 8),
    ],
    ids=["its task", "its VO", "its task says elastic", "by default"],
)
def test_e1_what_was_said_to_be_bound_early_is_not_bound_anew(
    two_queues: House, spec: Any, binding: Any, moved: int
) -> None:
    waiting(two_queues, 4, **spec)
    known = two_queues.store.federation()
    two_queues.store.save_federation(replace(known, binding=BindingConstants(**binding)), "test")
    idle_pilot(two_queues)
    assert two_queues.take("rebind") == moved


class Bound(Brokerages):
    """Has one brokerage, which says how its jobs are bound."""

    def __init__(self, binding: Binding | None) -> None:
        super().__init__()
        self._binding = binding

    def get(self, name: str, options: Mapping[str, Any]) -> Production:
        return Production(options, binding=self._binding)


def test_e1_what_its_brokerage_binds_early_is_not_bound_anew(two_queues: House) -> None:
    waiting(two_queues, 4)
    idle_pilot(two_queues)
    world = two_queues.store.snapshots.whole(two_queues.now, 1)
    assert rebound(world, "production", Bound("early")).moves == []
    assert rebound(world, "production", Bound(None)).moves != []


@pytest.mark.parametrize("by_vo", [{}, {"ligo": "elastic"}], ids=["nobody", "its VO"])
def test_m7_what_was_matched_in_a_cycle_is_not_bound_anew_and_counts_once(
    two_queues: House, by_vo: dict[str, Binding]
) -> None:
    two_queues.take("advertise")
    task = waiting(two_queues, 4, brokerage="matchmaking")
    known = two_queues.store.federation()
    two_queues.store.save_federation(replace(known, binding=BindingConstants(by_vo=by_vo)), "test")
    idle_pilot(two_queues)
    assert two_queues.take("rebind") == 0
    assert queues(two_queues, task) == {"north-queue": 4}
    (told,) = world_of(two_queues.store, "advertise", two_queues.now, 1).advertisements
    assert told.matched == 4


def test_a_plugin_that_cannot_be_had_keeps_only_its_own_jobs_where_they_are(two_queues: House) -> None:
    mine, theirs = waiting(two_queues, 2), waiting(two_queues, 2, owner=Identity(name="bob", vo="virgo"))
    known = two_queues.store.federation()
    two_queues.store.save_federation(replace(known, plugins={"virgo": "gone"}), "test")
    idle_pilot(two_queues)
    two_queues.take("rebind")
    assert queues(two_queues, mine) == {"other-queue": 2}
    assert queues(two_queues, theirs) == {"north-queue": 2}


def test_b37_a_plugin_that_cannot_be_had_keeps_only_its_own_jobs_pending(house: House) -> None:
    house.federate(status="offline")
    mine, theirs = house.task(jobs=1), house.task(jobs=1, owner=Identity(name="bob", vo="virgo"))
    house.take("broker")
    assert house.states(mine) == house.states(theirs) == {J.PENDING: 1}
    house.federate()
    known = house.store.federation()
    house.store.save_federation(replace(known, plugins={"virgo": "gone"}), "test")
    house.take("lift")
    assert (house.states(mine), house.states(theirs)) == ({J.DEFINED: 1}, {J.PENDING: 1})


def test_a_saved_world_shows_what_would_be_bound_again_or_why_nothing(two_queues: House) -> None:
    waiting(two_queues, 5)
    idle_pilot(two_queues)
    world = two_queues.store.snapshots.whole(two_queues.now, 1)
    assert [(move.source, move.target, len(move.ids)) for move in plan("rebind", world).moves] == [
        (J.ACTIVATED, J.DEFINED, 4),
        (J.DEFINED, J.ACTIVATED, 4),
    ]


def test_a_job_that_a_person_changes_meanwhile_is_not_bound_with_its_former_needs(
    two_queues: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = waiting(two_queues, 2, ram=1000)
    idle_pilot(two_queues)
    change = Wanted(fields={"ram": 64_000}, anyway=True)
    meanwhile(two_queues, monkeypatch, lambda: set_fields(two_queues.runtime, task, change, "user:alice"))
    two_queues.take("rebind")
    assert two_queues.states(task) == {J.DEFINED: 2}
