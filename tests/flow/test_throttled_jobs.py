"""Jobs beyond a quota of live jobs are accepted, throttled, and released in order as room comes (rules T)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pilotage.flow.calls.work.retry import retry
from pilotage.flow.errors import NotNow
from pilotage.flow.step import read_world
from pilotage.flow.steps import step
from pilotage.flow.task_cancellation import cancel
from pilotage.model.records.states import COUNTED_JOBS, JobState, TaskState
from pilotage.model.values.identity import Identity
from pilotage.policies.tasks.splitting import split
from pilotage.testing.stores import bring, move, moved, states

from .house import ALICE, House, attempts, meanwhile

J = JobState
BOB = Identity(name="bob", vo="ligo")


def quotas(house: House, **most: Any) -> None:
    known = house.store.federation()
    house.store.save_federation(replace(known, quotas=replace(known.quotas, **most)), "test")


def finish(house: House, pilot: int, most: int) -> None:
    """End so many jobs well."""
    house.report(pilot, "done", attempts(house.match(pilot, most)))


def test_jobs_beyond_a_user_s_quota_are_throttled_and_released_as_others_end(house: House) -> None:
    quotas(house, jobs_by_user=3)
    first, second = house.task(jobs=5), house.task(jobs=2)
    assert house.states(first) == {J.DEFINED: 3, J.THROTTLED: 2}
    assert house.states(second) == {J.THROTTLED: 2}
    house.take("broker")
    pilot = house.pilot()
    finish(house, pilot, 1)
    house.take("split")
    assert house.states(first) == {J.FINISHED: 1, J.ACTIVATED: 2, J.DEFINED: 1, J.THROTTLED: 1}
    assert house.states(second) == {J.THROTTLED: 2}, "in the order of submission"
    for _ in range(6):
        house.take("broker")
        finish(house, pilot, 3)
        house.take("split")
    assert house.states(first) == {J.FINISHED: 5}
    assert house.states(second) == {J.FINISHED: 2}


def test_nobody_s_backlog_delays_another_owner(house: House) -> None:
    quotas(house, jobs_by_user=3, jobs_by_vo=5)
    mine, other = house.task(jobs=50), house.task(owner=BOB, jobs=3)
    assert house.states(mine) == {J.DEFINED: 3, J.THROTTLED: 47}
    assert house.states(other) == {J.DEFINED: 2, J.THROTTLED: 1}, "the VO has room for five"
    house.take("broker")
    pilot = house.pilot()
    while house.states(other).get(J.FINISHED, 0) < 3:
        before = house.states(mine).get(J.FINISHED, 0)
        finish(house, pilot, 1)
        house.take("split")
        house.take("broker")
        assert house.states(mine).get(J.FINISHED, 0) - before <= 1
        assert house.now - 1_800_000_000 < 60
        house.now += 1
    assert house.states(mine)[J.THROTTLED] > 30


def test_new_jobs_do_not_overtake_throttled_ones_of_their_owner(house: House) -> None:
    quotas(house, jobs_by_user=2)
    first = house.task(jobs=3)
    quotas(house, jobs_by_user=3)
    ((_, second),) = house.submit({"jobs": 2}).tasks
    house.take("split")
    assert house.states(first) == {J.DEFINED: 3}
    assert house.states(second) == {J.THROTTLED: 2}


def test_a_group_has_a_quota_of_its_own(house: House) -> None:
    quotas(house, jobs_by_group=2)
    tasks = [
        house.task(owner=Identity(name=name, vo="ligo", group=group), jobs=2)
        for name, group in (("alice", "g"), ("bob", "g"), ("carol", "h"), ("dave", ""))
    ]
    found = [house.states(task) for task in tasks]
    assert found == [{J.DEFINED: 2}, {J.THROTTLED: 2}, {J.DEFINED: 2}, {J.DEFINED: 2}]


def test_a_throttled_job_fails_after_seven_days_and_its_task_with_it(house: House) -> None:
    quotas(house, jobs_by_user=1)
    task = house.task(jobs=2)
    house.now += 7 * 86400 - 1
    house.take("watch")
    assert house.states(task)[J.THROTTLED] == 1
    house.now += 1
    house.take("watch")
    assert J.THROTTLED not in house.states(task)
    assert house.states(task)[J.FAILED] == 1


def test_what_waits_to_be_merged_leaves_room_for_the_rest_of_its_task(house: House) -> None:
    quotas(house, jobs_by_user=1)
    task = house.task(jobs=2)
    (first,) = (id_ for id_, state in states(house.store, task).items() if state is J.DEFINED)
    bring(house.store, [first], J.RUNNING)
    house.take("split")
    assert house.states(task) == {J.RUNNING: 1, J.THROTTLED: 1}
    moved(house.store, move("job", [first], J.RUNNING, J.MERGING))
    house.take("split")
    assert house.states(task) == {J.MERGING: 1, J.DEFINED: 1}


def test_throttled_jobs_are_cancelled_with_their_task(house: House) -> None:
    quotas(house, jobs_by_user=1)
    task = house.task(jobs=3)
    cancel(house.runtime, task, "no more", "user:alice")
    assert house.states(task) == {J.CANCELLED: 3}
    assert house.store.queries.task(task).state == TaskState.CANCELLED  # type: ignore[union-attr]


def test_a_submission_beyond_the_hard_bound_is_refused_with_words(house: House) -> None:
    quotas(house, jobs_by_user=10, most_jobs_by_user=100)
    outcome = house.submit({"jobs": 90}, {"jobs": 20})
    assert len(outcome.tasks) == 1
    ((_, ((field, message),)),) = outcome.refused
    assert field == "jobs"
    assert "user alice would have 110 jobs that have not ended, above the quota of 100" in message


def live(house: House, *tasks: int) -> int:
    """Count the jobs of tasks that count against quotas of live jobs."""
    return sum(house.states(task).get(state, 0) for task in tasks for state in COUNTED_JOBS)


def split_elsewhere(house: House, *specs: Mapping[str, Any], owner: Identity) -> list[int]:
    """Submit tasks, which another server splits whole; it releases no throttled job."""
    made = [task for _, task in house.submit(*specs, owner=owner).tasks]
    world = read_world(step("split"), house.runtime, house.runtime.begin(1000))
    own = tuple(task for task in world.tasks if task.id in made)
    house.store.commit(split(replace(world, tasks=own, jobs=())), "another server")
    return made


def test_two_servers_that_split_at_once_keep_a_quota(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sees 8 planned jobs, far from the quota. Then the second splits two more tasks."""
    quotas(house, jobs_by_user=10)
    ((_, first),) = house.submit({"jobs": 8}).tasks
    others: list[int] = []
    new = {"jobs": 4}
    meanwhile(house, monkeypatch, lambda: others.extend(split_elsewhere(house, new, new, owner=ALICE)))
    house.take("split")
    assert (live(house, *others), live(house, first)) == (8, 2)
    assert house.states(first) == {J.DEFINED: 2, J.THROTTLED: 6}


def test_a_release_and_a_retry_leave_others_the_room_that_these_took_meanwhile(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas(house, jobs_by_vo=3)
    mine = house.task(jobs=5)
    quotas(house, jobs_by_vo=4)
    others: list[int] = []
    meanwhile(house, monkeypatch, lambda: others.extend(split_elsewhere(house, {"jobs": 1}, owner=BOB)))
    house.take("split")
    assert (house.states(mine), live(house, *others)) == ({J.DEFINED: 3, J.THROTTLED: 2}, 1)
    cancel(house.runtime, mine, "no more", "user:alice")
    meanwhile(house, monkeypatch, lambda: others.extend(split_elsewhere(house, {"jobs": 2}, owner=BOB)))
    retry(house.runtime, mine, "user:alice")
    assert (house.states(mine), live(house, *others)) == ({J.DEFINED: 1, J.THROTTLED: 4}, 3)


def test_a_retry_of_an_ended_task_keeps_the_quota_that_others_filled_meanwhile(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = house.task(jobs=5)
    cancel(house.runtime, ended, "no more", "user:alice")
    quotas(house, jobs_by_user=10, most_jobs_by_user=10)
    meanwhile(house, monkeypatch, lambda: house.submit({"jobs": 6}))
    with pytest.raises(NotNow, match="user alice would have 11 jobs that have not ended"):
        retry(house.runtime, ended, "user:alice")
    assert house.states(ended) == {J.CANCELLED: 5}
    task = house.store.queries.task(ended)
    assert task is not None
    assert task.state is TaskState.CANCELLED
