"""What attempts used: each is added up once, by any dimensions, for as long as the store keeps it."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from pilotage.flow.loops.archiving import archive_alone
from pilotage.model.records.failures import Failure
from pilotage.model.records.measurements import LOST_CORE_SECONDS, USED_CORE_SECONDS
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import TaskState
from pilotage.model.records.use import UseBy
from pilotage.model.records.work import File
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Identity
from pilotage.store import MeasuredKey, Store, Use, UseQuery, UseReport
from pilotage.store.jobs import daily_use
from pilotage.store.jobs.daily_use import daily_task_use as days
from pilotage.store.jobs.ended_attempts import ended_attempts
from pilotage.store.past import KEPT, USE_KEPT
from pilotage.testing import NOW, requirements
from pilotage.testing.records import ALICE
from pilotage.testing.stores import FEDERATION, decision, move, new_jobs, new_task
from tests.flow.test_servers_gone import Named

BOB = Identity(name="bob", vo="atlas", group="higgs")
DAY_OF_NOW = NOW // DAY * DAY


def run(
    store: Store,
    task: int,
    target: J,
    changes: dict[str, Any],
    time: float = NOW,
    owner: Identity = ALICE,
    share: str = "default",
    creates: tuple[Any, ...] = (),
    **needs: Any,
) -> int:
    """Let a job of a task run at a queue, and end its attempt."""
    needed = requirements(owner, **needs)
    (job,) = new_jobs(store, task, 1, time - 100, requirements=needed, share=share)
    at = {"queue": "CERN-q"}
    store.commit(decision(move("job", [job], J.DEFINED, J.ACTIVATED, at), time=time - 60), "broker")
    steps: list[tuple[J, J, dict[str, Any], float]] = [
        (J.ACTIVATED, J.SENT, {}, time - 60),
        (J.SENT, J.RUNNING, {"started": time - 60}, time - 60),
    ]
    for source, to, more, when in steps:
        store.commit(decision(move("job", [job], source, to, more), time=when), "test")
    end = move("job", [job], J.RUNNING, target, changes, creates={job: creates} if creates else {})
    store.commit(decision(end, time=time), "test")
    store.add_measurements()
    return job


def report(
    store: Store, *by: UseBy, owner: Identity | None = None, since: float = NOW, until: float = NOW + 9 * DAY
) -> UseReport:
    return store.past.usage(UseQuery(owner=owner, since=since, until=until, by=by))


def test_use_is_added_up_with_its_loss_by_cause(store: Store) -> None:
    mine, theirs = new_task(store), new_task(store, BOB)
    good = run(store, mine, J.HOLDING, {"wall_seconds": 50.0, "cpu_seconds": 40.0})
    run(store, mine, J.CANCELLED, {}, NOW + DAY)
    run(store, theirs, J.FAILED, {"wall_seconds": 10.0, "exit_code": 1, "error": "x"}, owner=BOB)
    by_task = report(store, "task")
    assert [(row.task, row.attempts, row.core_seconds, row.lost_seconds) for row in by_task.rows] == [
        (mine, 2, 110.0, 60.0),
        (theirs, 1, 10.0, 10.0),
    ]
    assert [(loss.cause, loss.culprit, loss.lost_seconds) for loss in by_task.lost] == [
        ("cancelled", "", 60.0),
        ("output", "unknown", 10.0),
    ]
    by_day = report(store, "day", owner=ALICE)
    assert [(row.time, row.core_seconds) for row in by_day.rows] == [(DAY_OF_NOW + DAY, 60), (DAY_OF_NOW, 50)]
    assert by_day.total.cpu_seconds == 40
    failed = move("job", [good], J.HOLDING, J.FAILED, {"error": "no storage took it"})
    store.commit(decision(failed, time=NOW), "test")
    store.add_measurements()
    (queue,) = report(store, "queue", owner=ALICE).rows
    assert (queue.queue, queue.attempts, queue.core_seconds, queue.lost_seconds) == ("CERN-q", 2, 110, 110)


def test_use_is_reported_by_several_dimensions_with_memory_power_and_bytes(store: Store) -> None:
    queues = tuple(replace(one, core_power=12.0) for one in FEDERATION.queues)
    store.save_federation(replace(FEDERATION, queues=queues), "test")
    mine, theirs = new_task(store, name="align"), new_task(store, BOB)
    out = File(name="user.alice:out", size=2_000_000, checksum="adler32:00000001", task=mine, job=1)
    used = {"wall_seconds": 100.0, "cpu_seconds": 150.0, "max_rss": 500.0}
    run(store, mine, J.HOLDING, used, cores=2, memory=4000, gpus=1, creates=(out,))
    run(store, mine, J.FINISHED, {**used, "max_rss": 1000.0}, cores=2, memory=4000, share="production")
    run(store, theirs, J.FINISHED, {"wall_seconds": 0.0, "cpu_seconds": 0.0}, owner=BOB)
    rows = report(store, "person", "vo", "group", "site", "share").rows
    places = [(row.person, row.vo, row.group, row.site, row.share, row.core_seconds) for row in rows]
    alice = (ALICE.name, ALICE.vo, ALICE.group, "CERN")
    assert sorted(places) == [
        (*alice, "default", 200.0),
        (*alice, "production", 200.0),
        ("bob", "atlas", "higgs", "CERN", "default", 0.0),
    ]
    (total,) = report(store, "task", owner=ALICE).rows
    assert (total.name, total.hs23_seconds, total.gpu_seconds) == ("align", 4800.0, 100.0)
    assert (total.asked_memory, total.used_memory, total.written_bytes) == (800_000, 150_000, 2_000_000)
    assert total.saved_memory == pytest.approx((4000 - 550) * 100 + (4000 - 1100) * 100)
    assert total.peak_memory == 1000
    assert report(store, "cause").rows[0].cause == ""
    (day_and_task, *_) = report(store, "day", "task").rows
    assert (day_and_task.time, day_and_task.task) == (DAY_OF_NOW, mine)
    counts = store.metrics_queries.counts().measured
    assert counts[MeasuredKey(USED_CORE_SECONDS.name, ("CERN-q", "default"), "")] == 200.0
    assert not any(key.name == LOST_CORE_SECONDS.name for key in counts)


def test_an_attempt_counts_on_the_day_of_its_end_and_both_days_of_a_report_count_whole(store: Store) -> None:
    task = new_task(store)
    for time in (DAY_OF_NOW - 0.5, DAY_OF_NOW, DAY_OF_NOW + DAY - 0.5, DAY_OF_NOW + DAY):
        run(store, task, J.FINISHED, {"wall_seconds": 1.0}, time)
    day = report(store, "day", since=DAY_OF_NOW + 5, until=DAY_OF_NOW + 7)
    assert (day.since, day.until, day.total.attempts) == (DAY_OF_NOW, DAY_OF_NOW + DAY, 2)
    assert report(store, "day", since=0, until=1).total == Use()


def test_an_end_that_is_reported_twice_counts_once(store: Store) -> None:
    task = new_task(store)
    job = run(store, task, J.FAILED, {"wall_seconds": 10.0, "error": "lost"})
    again = move("job", [job], J.RUNNING, J.HOLDING, {"wall_seconds": 20.0}, attempts=[1])
    assert store.commit(decision(again), "test").accepted == ((),)
    store.add_measurements()
    store.add_measurements()
    total = report(store, "day").total
    assert (total.attempts, total.core_seconds, total.lost_seconds) == (1, 10.0, 10.0)


def test_a_clock_that_was_set_back_makes_no_negative_use(store: Store) -> None:
    task = new_task(store)
    (job,) = new_jobs(store, task, requirements=requirements())
    steps: list[tuple[J, J, dict[str, Any], float]] = [
        (J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}, NOW),
        (J.ACTIVATED, J.SENT, {}, NOW),
        (J.SENT, J.RUNNING, {"started": NOW}, NOW),
        (J.RUNNING, J.FAILED, {"error": "lost"}, NOW - 500),
    ]
    for source, to, more, when in steps:
        store.commit(decision(move("job", [job], source, to, more), time=when), "test")
    store.add_measurements()
    total = report(store, "day", since=NOW - DAY).total
    assert (total.attempts, total.core_seconds) == (1, 0.0)


def test_a_failed_attempt_has_the_cause_of_its_failure(store: Store) -> None:
    task = new_task(store)
    failure = Failure(
        job=1,
        task=task,
        attempt=1,
        queue="CERN-q",
        node="n1",
        time=NOW,
        lasted=30,
        kind="memory",
        owner=ALICE.name,
        vo=ALICE.vo,
        pilot=1,
        pilots=1,
    )
    run(store, task, J.FAILED, {"wall_seconds": 30.0, "error": "killed"}, creates=(failure,))
    (loss,) = report(store, "cause").lost
    assert (loss.cause, loss.culprit, loss.what) == ("memory", "task", "exceeded its memory")


def test_a_person_with_many_tasks_takes_no_more_rows_of_use_than_allowed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily_use, "MOST_OF_PERSON", 1)
    tasks = [new_task(store) for _ in range(3)]
    for task in (*tasks, tasks[0]):
        run(store, task, J.HOLDING, {"wall_seconds": 50.0})
    run(store, tasks[1], J.HOLDING, {"wall_seconds": 7.0}, share="another")
    rows = report(store, "task", "queue", "share").rows
    assert [(row.task, row.queue, row.share, row.core_seconds) for row in rows] == [
        (0, "CERN-q", "default", 100.0),
        (tasks[0], "CERN-q", "default", 100.0),
        (0, "", "", 7.0),
    ]
    rows = report(store, "queue", "share").rows
    assert [(row.queue, row.share, row.core_seconds) for row in rows] == [
        ("CERN-q", "default", 200.0),
        ("CERN-q", "another", 7.0),
    ]
    run(store, tasks[1], J.HOLDING, {"wall_seconds": 9.0}, share="third")
    assert report(store, "share").rows[1].core_seconds == 9.0
    assert report(store, "share").rows[1].share == ""


def test_days_keep_tasks_for_a_month_and_the_rest_for_more_than_a_year(store: Store) -> None:
    task = new_task(store)
    run(store, task, J.FINISHED, {"wall_seconds": 50.0})
    run(store, task, J.FINISHED, {"wall_seconds": 5.0}, NOW + 3 * DAY)
    store.past.forget(NOW + KEPT + DAY)
    assert [row.core_seconds for row in report(store, "task").rows] == [5.0]
    assert [row.core_seconds for row in report(store, "day").rows] == [5.0, 50.0]
    store.past.forget(NOW + USE_KEPT + DAY)
    assert report(store, "day").total.attempts == 1


def test_attempts_are_forgotten_after_a_month_once_their_days_have_them(store: Store) -> None:
    task = new_task(store)
    for time in (NOW, NOW + 1, NOW + 2):
        run(store, task, J.FINISHED, {"wall_seconds": 50.0}, time)
    query = select(ended_attempts.c.time).order_by(ended_attempts.c.id)

    def times() -> list[float]:
        return list(store.database.read(lambda connection: connection.execute(query).scalars()))

    store.past.forget(NOW + KEPT)
    assert times() == [NOW, NOW + 1, NOW + 2]
    store.past.forget(NOW + KEPT + 1)
    assert times() == [NOW + 1, NOW + 2]
    store.past.forget(NOW + 2 * KEPT)
    assert times() == [NOW + 2], "the next one gets a later number"
    run(store, task, J.FINISHED, {"wall_seconds": 50.0})
    assert report(store, "day").total.attempts == 4


def test_use_is_the_same_after_its_attempts_are_forgotten_and_its_task_is_archived(store: Store) -> None:
    store.save_federation(FEDERATION, "test")
    task = new_task(store)
    run(store, task, J.FINISHED, {"wall_seconds": 50.0, "cpu_seconds": 40.0})
    run(store, task, J.FAILED, {"wall_seconds": 10.0, "exit_code": 1, "error": "x"}, NOW + 2 * DAY)
    store.commit(decision(move("task", [task], TaskState.REGISTERED, TaskState.FAILED)), "test")

    def reports() -> list[UseReport]:
        return [report(store, "day", "site", "queue", "share"), report(store, "person", "group", "cause")]

    before, later = reports(), NOW + KEPT + 9 * DAY
    archived = [slice_.kind for slice_ in archive_alone(store, Named("test"), later, lambda _: None)]
    store.past.forget(later)
    assert archived[0] == "job"
    assert archived[-1] == "task"
    assert len(store.past.attempts(0, 10, 0.0, later).attempts) == 1, "the next one gets a later number"
    assert reports() == before
    assert before[0].total.core_seconds == 60


def test_use_in_batches_is_added_up_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotage.store.jobs.ended_attempts.BATCH", 2)
    task = new_task(store)
    jobs = new_jobs(store, task, 5, requirements=requirements())
    for source, to in ((J.DEFINED, J.ACTIVATED), (J.ACTIVATED, J.SENT), (J.SENT, J.RUNNING)):
        store.commit(decision(move("job", jobs, source, to, {"queue": "CERN-q"})), "test")
    store.commit(decision(move("job", jobs, J.RUNNING, J.FINISHED, {"wall_seconds": 2.0})), "test")
    store.add_measurements()
    assert report(store, "day").total.core_seconds == 10
    rows = store.database.read(lambda connection: connection.execute(select(func.count()).select_from(days)))
    assert rows.scalar_one() == 1
