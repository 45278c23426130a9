"""Many threads and processes at once: exactly one wins each record, and nobody waits for a reader."""

import subprocess
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, text

from pilotage.model.records.constants import LogConstants
from pilotage.model.records.logs import KeptLog, LogKey
from pilotage.model.records.measurements import COMMITS, KEPT_LOGS
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState as P
from pilotage.store import Store, TaskPage
from pilotage.store.store import READINESS
from pilotage.testing import ALICE, NOW
from pilotage.testing.stores import FEDERATION, bring, decision, move, new_jobs, new_pilot, new_task, states
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.slow

PROCESS = """
import sys
from pilotage.model.documents.decision import Decision, Move
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState as P
from pilotage.store import Store

store = Store.open(sys.argv[1])
sys.stdin.readline()
taken = 0
for start in range(1, 201, 10):
    ids = tuple(range(start, start + 10))
    step = Move(kind="job", ids=ids, source=J.DEFINED, target=J.ACTIVATED, cause="race")
    taken += len(store.commit(Decision(step="race", time=1.0, seed=1, changes=(step,)), "racer").accepted[0])
print(taken)
"""


def in_threads(*works: Callable[[], None]) -> None:
    """Run all at once; the first error is raised here."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_of_those_that_move_the_same_records_exactly_one_wins_each(store: Store, store_url: str) -> None:
    jobs = new_jobs(store, new_task(store), 100)
    barrier = threading.Barrier(4)
    winners: Counter[int] = Counter()
    stores = [Store.open(store_url) for _ in range(4)]

    def race(own: Store) -> None:
        for start in range(0, 100, 10):
            barrier.wait()
            step = move("job", jobs[start : start + 10], J.DEFINED, J.ACTIVATED, attempts=(1,) * 10)
            winners.update(own.commit(decision(step), "racer").accepted[0])

    in_threads(*(partial(race, own) for own in stores))
    assert winners == Counter(jobs)
    assert [len(store.queries.events("job", job)) for job in jobs] == [2] * 100
    for own in stores:
        own.close()


def test_of_several_processes_exactly_one_wins_each(store: Store, store_url: str) -> None:
    task = new_task(store)
    new_jobs(store, task, 200)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, store_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    taken = [int(racer.communicate(timeout=PATIENCE)[0]) for racer in racers]
    assert sum(taken) == 200
    assert set(states(store, task).values()) == {J.ACTIVATED}


def test_a_reader_sees_one_moment_while_a_writer_works_and_neither_waits(store: Store) -> None:
    task = new_task(store)
    jobs = new_jobs(store, task, 3)
    looked, written = threading.Event(), threading.Event()
    seen: list[list[str]] = []

    def reader() -> None:
        def look(connection: object) -> None:
            query = "SELECT state FROM jobs ORDER BY id"
            seen.append([row[0] for row in connection.exec_driver_sql(query)])  # type: ignore[attr-defined]
            looked.set()
            assert written.wait(PATIENCE)
            seen.append([row[0] for row in connection.exec_driver_sql(query)])  # type: ignore[attr-defined]

        store.database.read(look)

    def writer() -> None:
        assert looked.wait(PATIENCE)
        bring(store, jobs, J.ACTIVATED)
        written.set()

    in_threads(reader, writer)
    assert seen == [["defined"] * 3] * 2
    assert set(states(store, task).values()) == {J.ACTIVATED}


def test_a_reader_does_not_wait_for_a_writer(store: Store) -> None:
    task = new_task(store)
    writing, done = threading.Event(), threading.Event()

    def writer() -> None:
        def work(connection: object) -> None:
            connection.exec_driver_sql("UPDATE tasks SET error = 'x'")  # type: ignore[attr-defined]
            writing.set()
            assert done.wait(PATIENCE)

        store.database.write(work)

    def reader() -> None:
        assert writing.wait(PATIENCE)
        found = store.queries.task(task)
        done.set()
        assert found is not None
        assert found.error == ""

    in_threads(writer, reader)
    found = store.queries.task(task)
    assert found is not None
    assert found.error == "x"


def test_many_threads_share_one_store(store: Store) -> None:
    task = new_task(store)

    def work() -> None:
        for _ in range(5):
            bring(store, new_jobs(store, task, 2, time=NOW), J.FINISHED)
            store.task_lists.page(TaskPage(limit=10))

    in_threads(*[work] * 24)
    found = store.queries.task(task)
    assert found is not None
    assert found.jobs == {J.FINISHED: 240}


_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def _log(store: Store) -> None:
    log = KeptLog(key=LogKey(kind="job", record=1), stream="stderr", size=1, head=1, data=zlib.compress(b"x"))
    store.logs.put([(log, ALICE)], NOW)


def _measure(store: Store) -> None:
    store.measurements.count(KEPT_LOGS, ("atlas", "alice"), 5.0)
    store.measurements.count(COMMITS, (), 1.0)
    store.add_measurements()


def _prune(store: Store) -> None:
    store.log_retention.prune(store.clock(), LogConstants())


def _lease(store: Store) -> None:
    store.leases.take("x", "a server", NOW, lambda _: True)


FIRST_WRITES: dict[str, tuple[Callable[[Store], object], Callable[[Store], object]]] = {
    "readiness": (Store.try_to_write, Store.try_to_write),
    "work": (lambda store: store.note_done("x"), lambda store: store.note_done("x")),
    "work and readiness": (lambda store: store.note_done(READINESS), Store.try_to_write),
    "measurements": (_measure, _measure),
    "a count of logs and new ones": (_prune, _measure),
    "new logs and a count": (_measure, _prune),
    "logs": (_log, _log),
    "readers of logs": (
        lambda store: store.logs.ask("job", 1, NOW),
        lambda store: store.logs.ask("job", 1, NOW),
    ),
    "tasks": (new_task, new_task),
    "leases": (_lease, _lease),
    "secrets": (
        lambda store: store.notification_settings.make_secret(ALICE),
        lambda store: store.notification_settings.make_secret(ALICE),
    ),
    "absences": (lambda store: store.absences.note(NOW, 0), lambda store: store.absences.note(NOW, 0)),
    "federations": (
        lambda store: store.save_federation(FEDERATION, "a"),
        lambda store: store.save_federation(FEDERATION, "a"),
    ),
}


@pytest.mark.parametrize("name", FIRST_WRITES)
def test_two_servers_may_write_the_first_row_at_once(postgresql_url: str, name: str) -> None:
    """The second one comes while the first has written and has not committed, transaction by transaction."""
    first, second = Store.open(postgresql_url), Store.open(postgresql_url)
    _log(first)
    with first.database.engine.begin() as connection:
        connection.execute(text("DELETE FROM log_volumes"))
    write = first.database.write
    faults: list[BaseException] = []

    def follow() -> None:
        try:
            FIRST_WRITES[name][1](second)
        except BaseException as fault:
            faults.append(fault)

    def waits_or_has_ended(follower: threading.Thread) -> bool:
        with second.database.engine.connect() as connection:
            return not follower.is_alive() or bool(connection.execute(_WAITING).scalar())

    def slow(work: Callable[[Connection], Any], *arguments: Any, **options: Any) -> Any:
        follower = threading.Thread(target=follow)

        def with_follower(connection: Connection) -> Any:
            done = work(connection)
            if not follower.ident:
                follower.start()
                wait_for(lambda: waits_or_has_ended(follower), "the other server")
            return done

        done = write(with_follower, *arguments, **options)
        follower.join(PATIENCE)
        return done

    first.database.write = slow  # type: ignore[method-assign]
    FIRST_WRITES[name][0](first)
    assert faults == []
    first.close()
    second.close()


@pytest.mark.parametrize("is_written_by_another", [False, True])
def test_an_end_does_not_wait_for_the_means_of_its_queue(store: Store, is_written_by_another: bool) -> None:
    """All pilots of a queue report ends. Its row would let one commit pass after the other."""
    if is_written_by_another and not store.database.is_postgresql:
        pytest.skip("SQLite has one writer")
    jobs = new_jobs(store, new_task(store), 3)
    bring(store, jobs, J.RUNNING)
    first, second, third = jobs
    _end(store, first, 100.0)
    _end(store, second, 300.0)
    assert _mean(store) == pytest.approx(0.95 * 100 + 0.05 * 300)
    if is_written_by_another:
        with store.database.engine.begin() as other:
            other.execute(text("UPDATE queue_reports SET last_pilot = 1"))
            _end(store, third, 300.0)
        assert _mean(store) == pytest.approx(110)
    assert states(store, 1)[third] == (J.FINISHED if is_written_by_another else J.RUNNING)


def test_a_heartbeat_waits_for_no_row_that_another_writes(postgresql_url: str) -> None:
    with closing(Store.open(postgresql_url)) as store:
        first, second = (new_pilot(store) for _ in range(2))
        for pilot in (first, second):
            for step in ((P.CREATED, P.SUBMITTED), (P.SUBMITTED, P.RUNNING)):
                store.commit(decision(move("pilot", [pilot], *step)), "test")
        with store.database.engine.begin() as other:
            other.execute(text("UPDATE queue_reports SET last_start = 1"))
            other.execute(text("UPDATE pilots SET heartbeat = 1 WHERE id = :id"), {"id": first})
            assert store.heartbeats.beat([first, second], NOW + 100) == {second: set()}
        assert set(store.heartbeats.beat([first, second], NOW + 100)) == {first, second}


def _end(store: Store, job: int, seconds: float) -> None:
    end = move("job", [job], J.RUNNING, J.FINISHED, {"wall_seconds": seconds})
    assert store.commit(decision(end), "test").accepted == ((job,),)


def _mean(store: Store) -> float:
    query = text("SELECT mean_run FROM queue_reports")
    return float(store.database.read(lambda connection: connection.execute(query).scalar_one()))
