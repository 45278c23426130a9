"""The verdict can fail: each hypothesis finds what contradicts it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text

from pilotage.model.records.states import JobState
from pilotage.store import Store
from pilotage.store.jobs.ended_attempts import NewAttempt, ended_attempts
from pilotage.testing.stores import bring, create, new_jobs, new_pilot, new_task, new_transfer

from .observer import counted
from .verdict import HYPOTHESES, Evidence, history, judge
from .work import Expectation

pytestmark = pytest.mark.postgresql


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The files of a storm of one task whose work went well."""
    for folder in ("ledger", "pilots/pilot-1", "storages/north/tasks/chaos/1"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "storages/north/tasks/chaos/1/sums-0.txt").write_text("index 0\n")
    (tmp_path / "ledger/1").write_text("1.1 begins 5.0\n1.1 fails 6.0\n1.2 begins 7.0\n1.2 ends 8.0\n")
    return tmp_path


@pytest.fixture
def connection(postgresql_url: str) -> Iterator[Connection]:
    """A store with a finished task."""
    store = Store.open(postgresql_url)
    task = new_task(store, name="flaky-1")
    store.close()
    engine = create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("UPDATE tasks SET state = 'finished'"))
        connection.execute(text("UPDATE meanings SET target = 'finished' WHERE kind = 'task'"))
        assert task == 1
        yield connection
    engine.dispose()


def wrong(place: Path, connection: Connection, **expected: str) -> set[str]:
    """The hypotheses that do not hold."""
    expectation = Expectation(
        **{"name": "flaky-1", "state": "finished"} | expected, outputs={"sums-0.txt": "index 0\n"}
    )
    return {fault.partition(":")[0] for fault in judge(Evidence(connection, place, {1: expectation}, True))}


def test_all_hold_where_all_went_well(place: Path, connection: Connection) -> None:
    assert wrong(place, connection) == set()
    (line,) = history(Evidence(connection, place, {}))
    assert " task 1 - finished " in line


def test_each_hypothesis_finds_what_contradicts_it(
    place: Path, connection: Connection, postgresql_url: str
) -> None:
    assert wrong(place, connection, state="failed") == {"accepted_tasks_ended"}
    (place / "storages/north/tasks/chaos/1/sums-0.txt").write_text("index 1\n")
    elsewhere = place / "storages/west/tasks/chaos/1"
    elsewhere.mkdir(parents=True)
    (elsewhere / "sums-1.txt").write_text("index 1\n")
    (place / "ledger/2").write_text("2.1 begins 5.0\n2.1 ends 6.0\n2.2 begins 7.0\n")
    (place / "ledger/overlaps").write_text("1.2 began during another one\n")
    (place / "storages/north/.scratch").mkdir()
    (place / "storages/north/.scratch/left").touch()
    store = Store.open(postgresql_url)
    new_jobs(store, 1)
    pilot = new_pilot(store)
    store.close()
    connection.execute(text("UPDATE pilots SET state = 'failed'"))
    connection.execute(
        text(
            'INSERT INTO tokens (hash, role, owner, vo, "group", vo_role, pilot, created)'
            " VALUES ('h', 'pilot', 'a', '', '', '', :pilot, 1)"
        ),
        {"pilot": pilot},
    )
    attempt = NewAttempt(
        time=9.0, job=1, attempt=1, task=1, vo="", owner="a", group="", share="default", queue="q", cause="",
        is_loss=False, pilot=1, started=5.0, seconds=4.0, cpu_seconds=1.0, cores=1, gpus=0, memory=0.0,
        max_rss=0.0, written=0,
    )  # fmt: skip
    connection.execute(ended_attempts.insert(), attempt._asdict())
    other = create_engine(postgresql_url)
    with other.connect() as idle:
        idle.execute(text("SELECT 1"))
        found = wrong(place, connection)
    other.dispose()
    assert found == {hypothesis.__name__ for hypothesis in HYPOTHESES} - {"accepted_tasks_ended"}


def test_the_observer_counts_what_limits_are_for(connection: Connection, postgresql_url: str) -> None:
    store = Store.open(postgresql_url)
    bring(store, new_jobs(store, 1, 3), JobState.RUNNING)
    bring(store, new_jobs(store, 1, 2), JobState.SENT)
    new_pilot(store, queue="north-queue", slots=2)
    create(store, new_transfer("a"))
    store.close()
    connection.execute(text("UPDATE jobs SET queue = 'north-queue'"))
    now = "extract(epoch FROM clock_timestamp())"
    connection.execute(text(f"UPDATE pilots SET site = 'north', since = {now}"))
    connection.execute(text("UPDATE transfers SET state = 'delivering'"))
    found = counted(connection)
    assert (found["jobs", "north"], found["submitting", "north"], found["live jobs", "the user"]) == (5, 2, 5)
    assert (found["slots of pilots", "north"], found["pilots", "north-queue"]) == (2, 1)
    assert (found["deliveries over the link", "CERN-disk to PIC-disk"], found["deliveries", "all"]) == (1, 1)
