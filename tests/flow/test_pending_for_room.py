"""Jobs whose queues are all full are pending, and go on, the oldest first, once there is room (B36, B37)."""

from dataclasses import replace

import pytest

from pilotage.flow.loops.broker_read_plan import BrokerReadPlan
from pilotage.flow.step import read_world, take
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Create, Decision, Move
from pilotage.model.documents.moves import FULL, PATIENCE
from pilotage.model.documents.world import Report
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, MergeSpec, NewJob, Replica
from pilotage.testing.stores import new_task
from tests.reading import BROKERED, world_of

from .house import House, attempts

J = JobState
MERGE = MergeSpec(command=("merge",), outputs=("all",), walltime=60)


@pytest.fixture
def small(house: House) -> House:
    """The queue takes 20 waiting jobs, however many run."""
    house.federate(num_slots=0)
    return house


def start(house: House, pilot: int, many: int) -> None:
    """Have a pilot take jobs and run them: each makes room for one that waits."""
    given = attempts(house.match(pilot, many))
    house.tell(pilot, *(Report(job=job, attempt=attempt, state="running") for job, attempt in given))


def broker(house: House) -> None:
    """Place what fits; the rest has lacked room for long enough to be pending."""
    house.take("broker")
    house.now += PATIENCE
    house.take("broker")


def states_of(house: House, *jobs: int) -> list[JobState]:
    found = [house.store.queries.job(job) for job in jobs]
    return [one.state for one in found if one]


def test_b37_a_job_that_soon_finds_room_is_written_once(small: House) -> None:
    task = small.task(jobs=21)
    small.take("broker")
    assert small.states(task) == {J.ACTIVATED: 20, J.DEFINED: 1}, "a pilot may make room before anybody asks"
    small.now += PATIENCE - 1
    assert small.take("broker") == 0
    start(small, small.pilot(), 1)
    small.take("broker")
    assert small.states(task) == {J.RUNNING: 1, J.ACTIVATED: 20}
    details = small.store.queries.job(21)
    assert details is not None
    assert [event.target for event in details.events] == [J.DEFINED, J.ACTIVATED]


def test_b37_jobs_without_room_are_pending_and_a_start_ends_their_hour_early(small: House) -> None:
    task = small.task(jobs=30)
    broker(small)
    assert small.states(task) == {J.ACTIVATED: 20, J.PENDING: 10}
    details = small.store.queries.job(30)
    assert details is not None
    assert details.events[-1].cause == FULL
    assert small.take("broker") == 0, "without room nothing is written"
    pilot = small.pilot()
    small.runtime.wakeups.is_woken("broker")
    start(small, pilot, 4)
    assert small.runtime.wakeups.is_woken("broker"), "a start makes room, and wakes the broker"
    small.take("broker")
    assert small.states(task) == {J.RUNNING: 4, J.ACTIVATED: 20, J.PENDING: 6}
    assert set(states_of(small, *range(21, 25))) == {J.ACTIVATED}, "the oldest went"


def test_b37_pending_jobs_go_before_younger_ones_and_after_those_of_higher_priority(small: House) -> None:
    old = small.task(jobs=22)
    small.take("broker")
    young = small.task(jobs=2)
    urgent = small.task(jobs=1, priority=700)
    broker(small)
    assert small.states(old) == {J.ACTIVATED: 20, J.PENDING: 2}
    assert (small.states(young), small.states(urgent)) == ({J.PENDING: 2}, {J.PENDING: 1})
    pilot = small.pilot()
    start(small, pilot, 2)
    small.take("broker")
    assert small.states(urgent) == {J.ACTIVATED: 1}
    assert small.states(old)[J.PENDING] == 1
    assert small.states(young) == {J.PENDING: 2}


@pytest.mark.parametrize("again", ["restarted", "lifted"])
def test_b37_a_server_that_was_started_anew_knows_what_waits_for_room(small: House, again: str) -> None:
    task = small.task(jobs=25)
    broker(small)
    object.__setattr__(small.runtime, "broker_read_plan", BrokerReadPlan(small.runtime.clock))
    pilot = small.pilot()
    start(small, pilot, 3)
    if again == "lifted":
        assert small.take("lift") == 3
    small.take("broker")
    assert small.states(task) == {J.RUNNING: 3, J.ACTIVATED: 20, J.PENDING: 2}


def test_b37_the_hour_of_full_queues_ends(small: House) -> None:
    task = small.task(jobs=21)
    broker(small)
    small.now += 3600
    small.take("watch")
    assert small.states(task) == {J.ACTIVATED: 20, J.DEFINED: 1}
    broker(small)
    assert small.states(task) == {J.ACTIVATED: 20, J.PENDING: 1}


def test_b37_jobs_that_fit_nowhere_are_not_read_with_those_that_wait_for_room(small: House) -> None:
    unfit = small.task(jobs=3, queues=("north-queue",), cores=4)
    full = small.task(jobs=21)
    broker(small)
    assert (small.states(unfit), small.states(full)) == ({J.PENDING: 3}, {J.ACTIVATED: 20, J.PENDING: 1})
    small.now += 10
    world = read_world(step("broker"), small.runtime, small.runtime.begin(1000))
    assert {job.task for job in world.jobs} == {full}


def test_b3_a_merge_job_whose_home_is_full_goes_elsewhere_after_a_day(small: House) -> None:
    """The 24 h begin with the first refusal of any kind, B36 included; a wait for a storage is none (F4)."""
    task = small.task(jobs=20)
    small.take("broker")
    new = NewJob(task=task, kind="merge", share="default", priority=500, requirements="[]")
    create = Decision(step="t", time=small.now, seed=1, changes=(Create(records=(new,), cause="merging"),))
    (job,) = small.store.commit(create, "test").created[0]
    assert job is not None
    moves = (
        Move(kind="job", ids=(job,), source=J.DEFINED, target=J.FAILED, cause="t"),
        Move(kind="job", ids=(job,), source=J.FAILED, target=J.PENDING, cause="its storage failed"),
        Move(kind="job", ids=(job,), source=J.PENDING, target=J.DEFINED, cause="t"),
    )
    small.store.commit(Decision(step="t", time=small.now, seed=1, changes=moves), "test")
    small.now += 100
    first = small.now
    take(step("broker"), small.runtime, small.runtime.begin(1000))
    assert states_of(small, job) == [J.PENDING]
    small.now += 3600
    small.take("watch")
    (found,) = (one for one in world_of(small.store, BROKERED, small.now, 1, 100).jobs if one.id == job)
    assert found == replace(found, skipped_since=first)


def test_b3_a_merge_job_leaves_its_full_home_for_another_queue_after_a_day(house: House) -> None:
    """Hour after hour its home is full, and another queue is free: it waits for a day, and no longer."""
    before = house.store.federation()
    home = replace(before.queues[0], num_slots=0)
    away = replace(home, name="south-queue", site="south", storage="south-disk", num_slots=100)
    house.store.save_federation(replace(before, queues=(home, away)), "test")
    house.task(jobs=20, queues=("north-queue",))
    house.take("broker")
    merging = new_task(house.store, merge=MERGE, outputs=("part",))
    job = _merge_job(house, merging)
    broker(house)
    assert states_of(house, job) == [J.PENDING]
    skipped = house.now
    while states_of(house, job)[0] in (J.PENDING, J.DEFINED):
        house.now += 3600
        for name in ("watch", "lift", "broker"):
            house.take(name)
        assert house.now <= skipped + 86400
    details = house.store.queries.job(job)
    assert details is not None
    assert (house.now, details.queue) == (skipped + 86400, "south-queue")


def _merge_job(house: House, task: int) -> int:
    """Make a merge job whose input lies at north."""
    records = (
        File(name="tasks:part.1", size=5, checksum="", task=task),
        Replica(file="tasks:part.1", storage="north-disk"),
        NewJob(
            task=task,
            kind="merge",
            share="default",
            priority=500,
            requirements="[]",
            inputs=("tasks:part.1",),
        ),
    )
    create = Decision(step="t", time=house.now, seed=1, changes=(Create(records=records, cause="merging"),))
    (*_, job) = house.store.commit(create, "test").created[0]
    assert job is not None
    return job
