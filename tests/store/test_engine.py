"""What passes by itself is tried again, in one place, and nothing is ever done twice."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, Connection, create_engine, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError

from pilotage.model.documents.decision import Create
from pilotage.model.records.states import JobState
from pilotage.model.records.states import JobState as J
from pilotage.model.records.work import NewTask, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.store import Store, TaskPage
from pilotage.store.database.commit_marks import CommitMarks
from pilotage.store.database.driver_errors import passes
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import NotUnicode
from pilotage.testing.stores import bring, create, decision, move, new_jobs, new_task, states
from tests.waiting import PATIENCE

TASK = NewTask(spec=TaskSpec(name="t"), owner=Identity(name="alice"))


@pytest.fixture
def postgresql(postgresql_url: str) -> Iterator[Store]:
    store = Store.open(postgresql_url)
    yield store
    store.close()


def terminate(store: Store, connection: Connection) -> None:
    """The server ends this connection's backend and waits until it is gone."""
    pid = connection.connection.dbapi_connection.info.backend_pid  # type: ignore[union-attr]
    other = create_engine(store.database.engine.url)
    with other.connect() as admin:
        assert admin.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid}).scalar()
    other.dispose()


def once(action: Callable[..., None], when: Callable[..., bool]) -> Callable[..., None]:
    """Act at the first event for which ``when`` holds, never again."""
    left = [action]

    def listener(*event_: Any) -> None:
        if left and when(*event_):
            left.pop()(*event_)

    return listener


@pytest.mark.parametrize(
    "word", ["pg_advisory_xact_lock", "SELECT jobs.id", "INSERT INTO counters", "UPDATE jobs"]
)
def test_a_connection_that_is_lost_in_a_commit_is_retried(postgresql: Store, word: str) -> None:
    task = new_task(postgresql)
    jobs = new_jobs(postgresql, task, 3)
    killed = []

    def kill(connection: Connection, *_: Any) -> None:
        killed.append(word)
        terminate(postgresql, connection)

    listener = once(kill, lambda _c, _k, statement, *_: word in statement)
    event.listen(postgresql.database.engine, "before_cursor_execute", listener)
    committed = postgresql.commit(decision(move("job", jobs, J.DEFINED, J.ACTIVATED)), "tester")
    assert killed == [word]
    assert committed.accepted == (tuple(jobs),)
    assert states(postgresql, task) == dict.fromkeys(jobs, JobState.ACTIVATED)
    assert [len(postgresql.queries.events("job", job)) for job in jobs] == [2, 2, 2]


def test_a_commit_whose_answer_was_lost_is_not_done_again(postgresql: Store) -> None:
    lost: list[Connection] = []

    def commit_and_lose(connection: Connection) -> None:
        lost.append(connection)
        driver: Any = connection.connection.dbapi_connection
        driver.commit()
        driver.close()

    event.listen(postgresql.database.engine, "commit", once(commit_and_lose, lambda *_: True))
    assert create(postgresql, TASK) == [1]
    assert lost
    assert [task.id for task in postgresql.task_lists.page(TaskPage(limit=10))] == [1]


def test_a_question_after_a_lost_answer_may_be_lost_too(postgresql: Store) -> None:
    def commit_and_lose(connection: Connection) -> None:
        driver: Any = connection.connection.dbapi_connection
        driver.commit()
        driver.close()

    asked = []

    def lose(connection: Connection, *_: Any) -> None:
        asked.append(1)
        terminate(postgresql, connection)

    engine = postgresql.database.engine
    event.listen(engine, "commit", once(commit_and_lose, lambda *_: True))
    event.listen(
        engine,
        "before_cursor_execute",
        once(lose, lambda _c, _k, statement, *_: "RETURNING mark" in statement),
    )
    assert create(postgresql, TASK) == [1]
    assert asked
    assert [task.id for task in postgresql.task_lists.page(TaskPage(limit=10))] == [1]


def test_as_many_writers_have_a_mark_as_write_at_once(postgresql: Store) -> None:
    database = postgresql.database
    for _ in range(3):
        create(postgresql, TASK)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: create(postgresql, TASK), range(20)))
    rows = database.read(lambda c: c.execute(text("SELECT writer, mark FROM commit_marks")).all())
    assert 1 <= len(rows) <= 5
    assert len({mark for _, mark in rows}) == len(rows)
    database.write(lambda c: c.execute(text("UPDATE commit_marks SET time = 1")), alone=False)
    Store.open(database.engine.url.render_as_string(hide_password=False)).close()
    left = text("SELECT count(*) FROM commit_marks WHERE time = 1")
    assert database.read(lambda c: c.execute(left).scalar_one()) == 0


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_that_is_still_under_way_is_waited_for(postgresql: Store, committed: bool) -> None:
    engine, marks = postgresql.database.engine, CommitMarks()
    postgresql.database.write(marks.keep)
    with marks.writer() as writer, engine.connect() as earlier, engine.connect() as asking:
        mark = marks.begin(earlier, writer, False, 60.0)
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(marks.is_last, asking, writer, mark)
            with pytest.raises(TimeoutError):
                answer.result(0.3)
            (earlier.commit if committed else earlier.rollback)()
            assert answer.result(PATIENCE) is committed


def test_a_commit_that_was_lost_before_it_took_effect_is_done_again(postgresql: Store) -> None:
    event.listen(
        postgresql.database.engine, "commit", once(lambda c: terminate(postgresql, c), lambda *_: True)
    )
    assert create(postgresql, TASK) == [1]
    assert [task.id for task in postgresql.task_lists.page(TaskPage(limit=10))] == [1]


def test_a_connection_that_is_lost_in_a_snapshot_is_retried(postgresql: Store) -> None:
    task = new_task(postgresql)
    listener = once(
        lambda c, *_: terminate(postgresql, c), lambda _c, _k, statement, *_: "FROM tasks" in statement
    )
    event.listen(postgresql.database.engine, "before_cursor_execute", listener)
    assert [found.id for found in postgresql.task_lists.page(TaskPage(limit=10))] == [task]


def test_connections_that_died_while_idle_are_replaced(postgresql: Store) -> None:
    task = new_task(postgresql)
    other = create_engine(postgresql.database.engine.url)
    with other.connect() as admin:
        admin.execute(
            text(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    other.dispose()
    bring(postgresql, new_jobs(postgresql, task, 2), J.FINISHED)


def test_a_busy_sqlite_is_waited_for(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotage.store.database.engine.BUSY_TIMEOUT", 0.01)
    store = Store.open(sqlite_url)
    blocker = sqlite3.connect(
        sqlite_url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )
    blocker.execute("BEGIN IMMEDIATE")
    failed: list[str] = []

    def log(_text: str, reason: str, *_: object) -> None:
        failed.append(reason)
        if len(failed) == 2:
            blocker.execute("COMMIT")

    monkeypatch.setattr("pilotage.store.database.engine.log.warning", log)
    assert create(store, TASK) == [1]
    assert failed == ["database is locked"] * 2
    blocker.close()
    store.close()


def test_an_error_in_the_work_is_raised_at_once_and_leaves_nothing(store: Store) -> None:
    calls = []

    def work(connection: Connection) -> None:
        calls.append(connection)
        connection.exec_driver_sql("DELETE FROM federations")
        connection.exec_driver_sql("INSERT INTO tasks (id) VALUES (1)")

    with pytest.raises(IntegrityError):
        store.database.write(work)
    assert len(calls) == 1


def _wrapped(kind: type[DBAPIError], error: Exception) -> DBAPIError:
    return kind("statement", {}, error)


def test_only_what_can_pass_is_tried_again() -> None:
    unreachable = psycopg.OperationalError("connection refused")
    starting = psycopg.OperationalError("FATAL: the database system is starting up")
    wrong = psycopg.OperationalError('FATAL: database "x" does not exist')
    assert passes(_wrapped(OperationalError, psycopg.errors.SerializationFailure()))
    assert passes(_wrapped(OperationalError, psycopg.errors.DeadlockDetected()))
    assert passes(_wrapped(OperationalError, psycopg.errors.AdminShutdown()))
    assert passes(_wrapped(OperationalError, unreachable))
    assert passes(_wrapped(OperationalError, starting))
    assert not passes(_wrapped(OperationalError, wrong))
    assert not passes(_wrapped(ProgrammingError, psycopg.errors.UndefinedTable()))
    assert not passes(ValueError())


def test_each_try_is_told_in_one_line_of_the_drivers_words(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(sqlite_url)
    tries = [psycopg.OperationalError("connection to 127.0.0.1 failed: refused\n\tIs the server running?")]

    def work(_: Connection) -> str:
        if tries:
            raise _wrapped(OperationalError, tries.pop())
        return "done"

    assert database.read(work) == "done"
    database.close()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("store: connection to 127.0.0.1 failed: refused; try 2 in ")
    assert "\n" not in line
    assert "sqlalche.me" not in line


@pytest.mark.parametrize(
    ("url", "message"),
    [("mysql://x/y", "must begin with sqlite")],
)
def test_an_address_that_cannot_be_a_store_is_refused(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Store.open(url)


def test_sqlite_is_set_up_to_be_shared(sqlite_url: str) -> None:
    database = Database(sqlite_url)

    def settings(connection: Connection) -> dict[str, Any]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}

    assert database.read(settings) == {
        "journal_mode": "wal",
        "synchronous": 1,
        "foreign_keys": 1,
        "busy_timeout": 30000,
    }
    database.close()


def test_writers_of_one_process_take_turns(store: Store) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(_: Connection) -> None:
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    threads = [threading.Thread(target=store.database.write, args=(work,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_writers_of_one_file_wait_for_each_other_and_never_meet_its_lock(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pilotage.store.database.engine.BUSY_TIMEOUT", 0.0)
    stores = [Store.open(sqlite_url) for _ in range(3)]
    task = new_task(stores[0])

    def write(number: int) -> None:
        new_jobs(stores[number % 3], task)
        stores[number % 3].database.write_directly(
            lambda driver: driver.execute("UPDATE jobs SET error = ''")
        )

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(60)))
    assert caplog.records == []
    assert len(states(stores[0], task)) == 60
    for store in stores:
        store.close()


def test_a_fault_in_what_sqlite_does_directly_leaves_nothing(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    task = new_task(store)

    def spoil(driver: sqlite3.Connection) -> None:
        driver.execute("UPDATE tasks SET error = 'x'")
        driver.execute("INSERT INTO tasks (id) VALUES (1)")

    with pytest.raises(sqlite3.IntegrityError):
        store.database.write_directly(spoil)
    found = store.queries.task(task)
    assert found is not None
    assert found.error == ""
    assert (
        store.database.write_directly(lambda driver: driver.execute("UPDATE tasks SET error = 'y'").rowcount)
        == 1
    )
    store.close()


def test_an_empty_create_is_nothing(store: Store) -> None:
    assert store.commit(decision(Create(records=(), cause="c")), "t").created == ((),)


def test_a_store_in_memory_serves_many_threads() -> None:
    store = Store.open("sqlite:///:memory:")
    other = Store.open("sqlite:///:memory:")
    task = new_task(store)
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: new_jobs(store, task), range(20)))
        seen = list(threads.map(lambda _: store.queries.task(task), range(20)))
    assert sorted(id_ for ids in made for id_ in ids) == list(range(1, 21))
    assert all(details is not None for details in seen)
    assert other.queries.task(task) is None
    store.close()
    other.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_without_unicode_is_refused_with_the_command_that_makes_another(
    postgresql_server: URL, postgresql_administration: Connection, encoding: str
) -> None:
    options = f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
    postgresql_administration.execute(text(f"CREATE DATABASE other_text TEMPLATE template0 {options}"))
    try:
        with pytest.raises(NotUnicode, match=f"other_text has the encoding {encoding}: .*createdb .*UTF8"):
            Store.open(postgresql_server.set(database="other_text").render_as_string(hide_password=False))
    finally:
        postgresql_administration.execute(text("DROP DATABASE other_text"))
