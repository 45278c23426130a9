"""The use of shares by hour, and failed attempts by day and person, of the last weeks."""

import pytest

from pilotage.flow.loops.work_samples import WorkRecorder
from pilotage.model.records.states import JobState as J
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Identity
from pilotage.store import ShareSample, Store
from pilotage.store.jobs import daily_failures
from pilotage.store.jobs.daily_failures import OTHERS
from pilotage.store.jobs.work_quarters import QUARTER, WorkOf
from pilotage.store.past import KEPT
from pilotage.testing import NOW
from pilotage.testing.records import ALICE
from pilotage.testing.stores import FEDERATION, bring, decision, move, new_jobs, new_task

BOB = Identity(name="bob", vo="atlas")
DAY_OF_NOW = NOW // DAY * DAY


def fail(store: Store, task: int, *errors: str, queue: str = "CERN-q", time: float = NOW) -> None:
    """Let a job of a task fail with each error, at a queue, and add up what was measured."""
    jobs = new_jobs(store, task, len(errors), time)
    store.commit(decision(move("job", jobs, J.DEFINED, J.ACTIVATED, {"queue": queue}), time=time), "broker")
    for job, error in zip(jobs, errors, strict=True):
        store.commit(decision(move("job", [job], J.ACTIVATED, J.FAILED, {"error": error}), time=time), "test")
    store.add_measurements()


def failures(store: Store, owner: Identity | None, after: float = NOW - DAY) -> list[tuple[object, ...]]:
    return [
        (one.time, one.queue, one.error, one.attempts) for one in store.past.failures(owner, after).failures
    ]


def test_failed_attempts_are_added_up_by_day_queue_and_error_of_each_person(store: Store) -> None:
    mine, theirs = new_task(store), new_task(store, BOB)
    fail(
        store,
        mine,
        "payload exited with code 1\ndisk 7 is full",
        "payload exited with code 1\ndisk 8 is full",
    )
    fail(store, mine, "an input is gone\nits storage is down", queue="PIC-q")
    fail(store, mine, "disk 9 is full", time=NOW + DAY)
    fail(store, theirs, "disk 1 is full")
    assert failures(store, ALICE) == [
        (DAY_OF_NOW + DAY, "CERN-q", "disk # is full", 1),
        (DAY_OF_NOW, "CERN-q", "disk # is full", 2),
        (DAY_OF_NOW, "PIC-q", "an input is gone", 1),
    ]
    assert failures(store, BOB) == [(DAY_OF_NOW, "CERN-q", "disk # is full", 1)]
    assert (DAY_OF_NOW, "CERN-q", "disk # is full", 3) in failures(store, None)
    examples = {one.queue: one.example for one in store.past.failures(ALICE, NOW).failures if one.time < NOW}
    assert examples == {"CERN-q": "disk 7 is full", "PIC-q": "an input is gone"}
    assert store.past.failures(None, NOW).days == ((DAY_OF_NOW, 4), (DAY_OF_NOW + DAY, 1))
    store.past.forget(NOW + KEPT + DAY)
    assert len(failures(store, None, 0)) == 1


def test_an_attempt_that_is_tried_again_counts_once(store: Store) -> None:
    task = new_task(store)
    (job,) = new_jobs(store, task)
    fails = move("job", [job], J.DEFINED, J.FAILED, {"error": "no license"})
    again = move("job", [job], J.FAILED, J.DEFINED, next_attempt=True)
    store.commit(decision(fails, again), "test")
    store.add_measurements()
    store.add_measurements()
    assert failures(store, ALICE) == [(DAY_OF_NOW, "", "no license", 1)]


def test_a_person_with_many_errors_takes_no_more_room_than_allowed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily_failures, "MOST_OF_PERSON", 2)
    mine, theirs = new_task(store), new_task(store, BOB)
    fail(store, mine, "a", "a", "b", "b", "c")
    fail(store, mine, "d", "a")
    fail(store, theirs, "e")
    assert failures(store, ALICE) == [
        (DAY_OF_NOW, "CERN-q", "a", 3),
        (DAY_OF_NOW, "", OTHERS, 2),
        (DAY_OF_NOW, "CERN-q", "b", 2),
    ]
    assert failures(store, BOB) == [(DAY_OF_NOW, "CERN-q", "e", 1)]
    monkeypatch.setattr(daily_failures, "_READ", daily_failures._READ.limit(1))
    assert store.past.failures(None, NOW).left_out == 5


def sample(running: int, used: float, share: str = "users") -> ShareSample:
    return ShareSample(share=share, running=running, used=used, target=0.25)


def test_the_use_of_a_share_is_the_mean_of_its_hours(store: Store) -> None:
    hour = NOW // 3600 * 3600
    for at, (running, used) in ((0, (10, 0.5)), (600, (30, 0.7)), (3600, (20, 0.1)), (9 * 3600, (0, 0.0))):
        store.past.add_sample([sample(running, used), sample(1, 0.3, "production")], hour + at)
    spans = [one for one in store.past.shares(hour, hour + DAY) if one.share == "users"]
    assert [(one.time - hour, one.running) for one in spans] == [(0, 20), (3600, 20), (9 * 3600, 0)]
    assert [one.used for one in spans] == pytest.approx([0.6, 0.1, 0.0])
    assert {one.target for one in spans} == {0.25}
    long = [one for one in store.past.shares(hour, hour + 10 * DAY) if one.share == "users"]
    assert len(long) in (2, 3), "each six hours"
    assert sum(one.time % (6 * 3600) for one in long) == 0
    store.past.forget(hour + KEPT + 3600)
    assert len(store.past.shares(0, DAY)) == 4


def test_running_and_finished_jobs_are_sampled_for_site_person_and_task(store: Store) -> None:
    store.save_federation(FEDERATION, "test")
    recorder = WorkRecorder(store)
    recorder.record(NOW)
    task = new_task(store)
    running, done = new_jobs(store, task, 2), new_jobs(store, task, 3)
    bring(store, running, J.RUNNING)
    bring(store, done, J.FINISHED)
    new_task(store, BOB)
    recorder.record(NOW + 1)
    recorder.record(NOW + 2)
    (quarter,) = store.past.work("all", "", NOW - DAY)
    assert (quarter.time, quarter.running, quarter.done) == (NOW // QUARTER * QUARTER, 4 / 3, 3)
    own: tuple[tuple[WorkOf, str], ...] = (("site", "CERN"), ("person", ALICE.key), ("task", str(task)))
    for kind, name in own:
        assert store.past.work(kind, name, NOW - DAY) == [quarter], kind
    assert [one.done for one in store.past.work("person", BOB.key, NOW - DAY)] == [0]
    bring(store, new_jobs(store, task), J.FINISHED)
    recorder.record(NOW + 2 * QUARTER)
    assert [one.done for one in store.past.work("all", "", NOW)] == [3, 0], "another server may have counted"
    store.past.forget(NOW + 2 * DAY)
    assert store.past.work("all", "", 0) == []
