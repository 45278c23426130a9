"""A pass of the broker reads no more of what only waits than may find room."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import pytest

from pilotage.flow.loops.broker_read_plan import AMPLE, LEAST, REST, WHOLE_AFTER, BrokerReadPlan
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import JobState
from pilotage.policies.pilots.reports import calls
from pilotage.store import Pass, Store, Waiting
from pilotage.testing import NOW, job
from pilotage.testing.stores import FEDERATION, bring, move, moved, new_jobs, new_pilot, new_task
from tests.reading import BROKERED, world_of

LIMIT = 5000


class Passes:
    """Passes over tasks that wait in the order of their numbers; those that are stuck find no room.

    Listing a task takes ``listing`` s, looking at it ``looking`` s.
    """

    def __init__(self, looking: float = 0.0, listing: float = 0.0) -> None:
        self.broker_read_plan = BrokerReadPlan(lambda: self.time)
        self.time = NOW
        self.jobs: dict[int, list[int]] = {}
        self.shares: dict[int, str] = {}
        self.stuck: set[int] = set()
        self.large: set[int] = set()
        self.listings = 0
        self.settled = True
        self._looking, self._listing = looking, listing

    def add(self, *tasks: int, each: int = 1000, share: str = "default") -> None:
        """Let more tasks wait."""
        for task in tasks:
            self.jobs[task] = [task * 10_000 + number for number in range(each)]
            self.shares[task] = share

    def _waiting(self) -> list[Waiting]:
        self.listings += 1
        self.time += self._listing * len(self.jobs)
        found = sorted((task, jobs) for task, jobs in self.jobs.items() if jobs)
        return [Waiting(task, self.shares[task], 500, len(jobs)) for task, jobs in found]

    def take(self, room: int) -> dict[int, int]:
        """Take a pass, with room for so many of each share; returns how many jobs it read of each task."""
        self.time += 1
        parts = self.broker_read_plan.parts(self._waiting, Pass(self.time, 1, LIMIT))
        read = {
            task: ids[: parts[task]] for task, ids in sorted(self.jobs.items()) if ids and parts.get(task)
        }
        fits: set[int] = set()
        for share in sorted(set(self.shares.values())):
            free = (
                ids for task, ids in read.items() if self.shares[task] == share and task not in self.stuck
            )
            fits |= set(list(chain.from_iterable(free))[:room])
        self.jobs = {task: [id_ for id_ in ids if id_ not in fits] for task, ids in self.jobs.items()}
        self.time += self._looking * len(read)
        found = [
            job(id_, of=task, share=self.shares[task], requirements="large" if task in self.large else "[]")
            for task, ids in read.items()
            for id_ in ids
        ]
        self.settled = self.broker_read_plan.note(found, fits)
        return {task: len(ids) for task, ids in read.items()}


def test_the_first_pass_looks_at_every_task_and_the_next_at_those_that_come_first() -> None:
    passes = Passes()
    passes.add(*range(1, 1001))
    assert passes.take(room=1000) == {**dict.fromkeys(range(1, 1001), 5), 1: AMPLE * LEAST}
    assert passes.take(room=1000) == {1: 600, 2: 650}
    assert passes.take(room=10) == {2: 595, 3: 655}
    assert passes.take(room=10) == {2: 585, 3: 508}


def test_a_look_at_all_leaves_the_room_to_what_comes_first() -> None:
    passes = Passes()
    passes.add(*range(1, 1001), each=300)
    for _ in range(2 * WHOLE_AFTER):
        waited = {task: len(jobs) for task, jobs in passes.jobs.items()}
        passes.take(room=LEAST)
        went = {task for task, jobs in passes.jobs.items() if len(jobs) < waited[task]}
        assert went == set(sorted(task for task in waited if waited[task])[: len(went)])
        assert 1 <= len(went) <= 2


def test_more_room_than_lately_goes_to_what_comes_first_in_a_look_at_all_too() -> None:
    passes = Passes()
    passes.add(*range(1, 1001), each=300)
    for _ in range(WHOLE_AFTER):
        passes.take(room=400)
    waited = sorted(task for task, jobs in passes.jobs.items() if jobs)
    assert len(passes.take(room=900)) == len(waited)
    left = {task: len(passes.jobs[task]) for task in waited}
    assert all(left[task] == 0 for task in waited[:3])
    assert all(left[task] == 300 for task in waited[4:])


def test_what_finds_room_again_doubles_with_each_pass() -> None:
    passes = Passes()
    passes.add(1, 2, each=4000)
    passes.take(room=0)
    assert [sum(passes.take(room=10_000).values()) for _ in range(4)] == [LEAST, 400, 800, 1600]


def test_every_share_has_its_own_part() -> None:
    passes = Passes()
    passes.add(*range(1, 100), share="production")
    passes.add(100, share="analysis")
    passes.take(room=50)
    assert passes.take(room=10) == {1: LEAST, 100: LEAST}


def test_what_was_overtaken_is_read_in_parts_or_rests_until_all_is_looked_at() -> None:
    passes = Passes()
    passes.add(1, 2, 3, each=400)
    passes.stuck = {1}
    assert passes.take(room=300) == {1: 400, 2: 400, 3: 400}
    assert passes.take(room=100) == {2: 100, 3: 275}
    for _ in range(WHOLE_AFTER - 2):
        assert 1 not in passes.take(room=1)
    assert passes.take(room=1)[1] == 400


def test_what_rests_is_read_when_nothing_else_is_left() -> None:
    passes = Passes(looking=100.0)
    passes.add(1, each=100)
    passes.add(2, each=LEAST)
    passes.stuck = {1}
    # All is looked at once, for 200 s: for 2,000 s not again.
    assert passes.take(room=100) == {1: 100, 2: LEAST}
    assert passes.take(room=100) == {1: 100, 2: LEAST - 100}
    passes.stuck.clear()
    assert passes.take(room=100) == {1: 100}


def test_what_one_plugin_leaves_keeps_no_task_of_another_waiting() -> None:
    read_plan = BrokerReadPlan(lambda: NOW)
    waiting = [Waiting(1, "default", 500, 1000), Waiting(2, "default", 500, 1000)]
    first, second = ([job(of * 1000 + number, of=of) for number in range(200)] for of in (1, 2))
    read_plan.parts(lambda: waiting, Pass(NOW, 1, LIMIT))
    read_plan.note(first, ())
    read_plan.note(second, [one.id for one in second])
    assert read_plan.parts(lambda: waiting, Pass(NOW, 1, LIMIT)) == {2: 250}


def test_where_nothing_goes_all_is_looked_at_at_once_and_then_no_more() -> None:
    passes = Passes()
    passes.add(*range(1, 11))
    passes.take(room=0)
    passes.take(room=0)
    assert not passes.settled
    assert passes.take(room=0) == dict.fromkeys(range(1, 11), 500)
    assert passes.settled


def test_the_more_it_costs_to_look_at_all_the_longer_it_rests() -> None:
    passes = Passes(looking=1.0)
    passes.add(*range(1, 31), each=10)
    begun = passes.time
    assert len(passes.take(room=0)) == 30
    while len(passes.take(room=0)) < 30:
        assert passes.settled == (passes.time < begun + 30 + REST * 30)
    assert passes.time > begun + 30 + REST * 30


def test_tasks_are_listed_seldom_where_that_costs_much() -> None:
    passes = Passes(listing=1.0)
    passes.add(*range(1, 11))
    for _ in range(5):
        passes.take(room=10)
    assert passes.listings == 1
    passes.add(0)
    passes.time += REST * 10
    assert next(iter(passes.take(room=10))) == 0


def test_new_tasks_are_seen_at_once_where_all_that_is_known_is_read() -> None:
    passes = Passes(listing=1.0)
    passes.add(1, 2, each=10)
    passes.take(room=10)
    passes.add(3, each=10)
    assert passes.take(room=10) == {2: 10, 3: 10}


def test_a_snapshot_has_no_more_of_a_task_than_was_asked_for(store: Store) -> None:
    store.save_federation(FEDERATION, "test")
    first, second = new_task(store), new_task(store, priority=900)
    oldest, others = new_jobs(store, first, 6), new_jobs(store, second, 6, priority=900)
    seen: list[Waiting] = []

    def parts(waiting: Callable[[], Sequence[Waiting]]) -> dict[int, int]:
        seen.extend(waiting())
        return {first: 1, second: 4}

    world = world_of(store, BROKERED, NOW, 1, limit=8, portions=parts)
    assert seen == [Waiting(second, "default", 900, 6), Waiting(first, "default", 500, 6)]
    assert [one.id for one in world.jobs] == [*others[:4], oldest[0]]
    whole = world_of(store, BROKERED, NOW, 1, limit=8)
    assert [one.id for one in whole.jobs] == [*others[:4], *oldest[:4]]


@pytest.mark.parametrize("state", [JobState.DEFINED, JobState.PENDING, JobState.ACTIVATED])
def test_of_more_tasks_than_a_pass_may_read_jobs_the_first_by_priority_are_read(
    store: Store, state: JobState
) -> None:
    queues = tuple(replace(queue, computing_element=ComputingElement()) for queue in FEDERATION.queues)
    store.save_federation(replace(FEDERATION, queues=queues), "test")
    made = {}
    for priority in (500, 400, 600, 900):
        (made[priority],) = new_jobs(store, new_task(store, priority=priority), priority=priority)
    if state is JobState.PENDING:
        moved(store, move("job", list(made.values()), JobState.DEFINED, state))
    if state is JobState.ACTIVATED:
        bring(store, list(made.values()), state)
        idle = new_pilot(store, "PIC-q")
        found = store.queries.pilot(idle)
        assert found is not None
        store.commit(calls(NOW, 1, found), "test")
        world = world_of(store, "rebind", NOW, 1, limit=2)
    else:
        world = world_of(store, BROKERED if state is JobState.DEFINED else "lift", NOW, 1, limit=2)
    assert [one.id for one in world.jobs] == [made[900], made[600]]


def test_looks_at_all_go_on_where_the_last_one_ended() -> None:
    passes = Passes()
    passes.add(*range(1, LIMIT + 3), each=1)
    passes.stuck.update(range(1, LIMIT + 2))
    read: set[int] = set()
    for _ in range(3 * WHOLE_AFTER):
        read |= passes.take(room=1).keys()
    assert LIMIT + 2 in read


def test_each_plugin_of_a_pass_that_looks_at_all_reads_the_same_tasks() -> None:
    time = NOW
    read_plan = BrokerReadPlan(lambda: time)
    tasks = [Waiting(task, "default", 500, 1) for task in range(1, 2 * LIMIT + 1)]
    seen: list[set[int]] = [set(), set()]
    for _ in range(3 * WHOLE_AFTER):
        time += 1000
        now = Pass(time, 1, LIMIT)
        for by_plugin in seen:
            by_plugin.update(read_plan.parts(lambda: tasks, now))
    assert [len(by_plugin) for by_plugin in seen] == [2 * LIMIT] * 2


def test_a_pass_goes_on_while_all_jobs_of_like_requirements_found_room() -> None:
    passes = Passes(looking=1.0)
    passes.add(1, 2, 3)
    passes.take(room=1200)
    assert not passes.broker_read_plan.goes_on()
    passes.stuck = {2}
    passes.take(room=10_000)
    assert not passes.broker_read_plan.goes_on()
    passes.stuck = set()
    passes.take(room=10_000)
    assert passes.broker_read_plan.goes_on()


def test_a_pass_goes_on_for_the_share_whose_jobs_all_found_room() -> None:
    passes = Passes(looking=1.0)
    passes.add(1, share="production")
    passes.add(2, share="analysis")
    passes.stuck = {1}
    passes.take(room=1000)
    assert passes.broker_read_plan.goes_on()


def test_a_pass_that_follows_reads_nothing_that_stayed() -> None:
    passes = Passes(looking=1.0)
    passes.add(1, share="production", each=20_000)
    passes.add(2, share="analysis", each=20_000)
    passes.take(room=400)
    assert passes.take(room=10_000) == {1: 500, 2: 500}
    passes.stuck = {1}
    assert passes.take(room=10_000) == {1: 1000, 2: 1000}
    assert passes.broker_read_plan.goes_on()
    assert passes.take(room=10_000) == {2: 2000}
    # What wakes the step may be room: then all are read as ever.
    assert passes.broker_read_plan.goes_on(has_changed=True)
    assert passes.take(room=10_000)[1] > LEAST


def test_a_pass_that_follows_lists_no_tasks_anew() -> None:
    passes = Passes(looking=1.0)
    passes.add(1, 2, each=20_000)
    passes.take(room=10_000)
    passes.take(room=10_000)
    listed = passes.listings
    assert passes.broker_read_plan.goes_on()
    assert sum(passes.take(room=10_000).values()) > LEAST
    assert passes.listings == listed
    assert passes.broker_read_plan.goes_on(has_changed=True)
    passes.take(room=10_000)
    assert passes.listings == listed + 1


def test_a_pass_that_follows_probes_a_share_of_which_jobs_stayed() -> None:
    passes = Passes(looking=1.0)
    passes.add(1, each=300)
    passes.add(2, each=400)
    passes.add(3, each=10_000)
    passes.stuck, passes.large = {2}, {2}
    passes.take(room=10_000)
    # What fits comes behind what does not, which is passed over; once all of it went, more is read.
    assert passes.broker_read_plan.goes_on()
    assert passes.take(room=10_000) == {3: LEAST}
    while any(passes.jobs[task] for task in (1, 3)):
        assert passes.broker_read_plan.goes_on()
        (task,) = read = passes.take(room=10_000)
        assert task == 3
        assert read[task] > LEAST


def test_a_pass_that_left_tasks_out_goes_on_once_a_look_at_all_is_due() -> None:
    passes = Passes(looking=1.0)
    passes.add(*range(1, 11))
    passes.take(room=100)
    passes.take(room=100)
    assert not passes.broker_read_plan.goes_on()
    passes.time += REST * 10
    assert passes.broker_read_plan.goes_on()
