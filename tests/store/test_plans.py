"""A pass costs what it moves: no query walks through the records that only wait."""

import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, select, text

from pilotage.model.documents.decision import Touch
from pilotage.model.documents.world import Heartbeat, Report
from pilotage.model.records.constants import LogConstants
from pilotage.model.records.counters import Claim
from pilotage.model.records.logs import LogKey
from pilotage.model.records.publications import NewPublication
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState, TransferState
from pilotage.model.records.work import File
from pilotage.model.values.identity import Credential
from pilotage.store import Store, TaskFilter, TaskPage
from pilotage.store.database import dialects
from pilotage.store.files.publications import failed_of
from pilotage.store.jobs import log_volumes
from pilotage.store.jobs.borrowings import for_queue
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.logs import node_log
from pilotage.store.jobs.table import jobs
from pilotage.store.pilots.held_jobs import held_by
from pilotage.store.pilots.reports import told_by_pilots
from pilotage.store.tasks.lists import conditions_of
from pilotage.store.tasks.table import LIVE_WORK, tasks
from pilotage.store.tasks.work import brokered_again, live_work_of, one_task
from pilotage.store.transfers.staging import downloads_of
from pilotage.store.worlds.broker_facts import DISK_IO
from pilotage.testing import ALICE, NOW, requirements
from pilotage.testing.stores import (
    FEDERATION,
    bring,
    create,
    decision,
    elastic,
    move,
    moved,
    new_jobs,
    new_pilot,
    new_task,
    new_transfer,
    passage,
)
from tests.reading import BROKERED, world_of

HOLDS = Heartbeat(pilot=1, holding=((1, 1),))
STARTS = Heartbeat(pilot=1, reports=(Report(job=1, attempt=1, state="running"),))

CLAIM = Claim(counter="jobs_by_queue", key=("CERN-q", None), states=(J.ACTIVATED,), limit=10)
PASSES: dict[str, Callable[[Store], Any]] = {
    "split": lambda store: world_of(store, "split", NOW, 1, 10),
    "broker": lambda store: world_of(store, BROKERED, NOW, 1, 10),
    "lift": lambda store: world_of(store, "lift", NOW, 1, 10),
    "explain": lambda store: (
        world_of(store, brokered_again(1), NOW, 1, 100),
        world_of(store, brokered_again(1, 1), NOW, 1, 1),
    ),
    "staging": lambda store: world_of(store, "stage", NOW, 1, 1),
    "director": lambda store: world_of(store, "provision", NOW, 1),
    "match": lambda store: store.matches.standing("CERN-q"),
    "borrow": lambda store: world_of(store, [for_queue("CERN-q")], NOW, 1),
    "borrowed": lambda store: store.queries.borrowings(1),
    "prefer": lambda store: elastic(store, 1, 1, inputs=("a",)),
    "reports": lambda store: world_of(store, [told_by_pilots([STARTS])], NOW, 1),
    "reports of many": lambda store: world_of(store, [told_by_pilots([HOLDS], quiet=True)], NOW, 1),
    "completion": lambda store: world_of(store, "finish", NOW, 1, 10),
    "watch": lambda store: world_of(store, "watch", NOW, 1, 10),
    "move": lambda store: store.commit(
        decision(move("job", [1, 2], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}, claims=(CLAIM,))), "tester"
    ),
    "touch": lambda store: store.commit(
        decision(Touch(kind="pilot", ids=(1,), changes={"heartbeat": NOW})), "tester"
    ),
    "create": lambda store: new_jobs(store, 1, 2, inputs=("a",)),
    "tasks": lambda store: store.task_lists.page(TaskPage(owner=ALICE, limit=10)),
    "jobs": lambda store: store.queries.jobs(1, J.DEFINED, 10),
    "job": lambda store: store.queries.job(1),
    "choices": lambda store: (store.queries.task_choices(1), store.queries.job_choices(1)),
    "pilots": lambda store: (
        store.queries.pilots(PilotState.CREATED, None, 10),
        store.queries.pilots(None, "CERN-q", 10),
        store.queries.pilots(PilotState.CREATED, "CERN-q", 10),
    ),
    "transfers": lambda store: (
        store.queries.transfers(TransferState.QUEUED, 10),
        store.queries.outputs(1),
        store.transfer_queries.files_of(1, "CERN-disk"),
    ),
    "token": lambda store: store.tokens.find(store.tokens.create(Credential(role="user", identity=ALICE))),
    "cancel": lambda store: world_of(store, (one_task(1), live_work_of(1)), NOW, 1),
    "give up": lambda store: world_of(store, [downloads_of({"f1", "f2"})], NOW, 1),
    "publish": lambda store: (
        world_of(store, "publish", NOW, 1),
        world_of(store, [failed_of(1)], NOW, 1),
    ),
    "published": lambda store: (
        store.publication_queries.of_task(1),
        store.publication_queries.of_file("a"),
        store.publication_queries.task_of("rucio~user.alice:x"),
        store.publication_queries.results(1),
    ),
    "matching": lambda store: store.catalogue.matching("a", lambda _: True, "", 10),
    "datasets": lambda store: (
        store.datasets.made_by("a:x", "task:1"),
        store.datasets.files("a:x", 1, limit=10),
    ),
    "metrics": lambda store: (store.metrics_queries.counts(), store.metrics_queries.pending()),
    "stuck": lambda store: (store.stuck_queries.staying(NOW), store.stuck_queries.past()),
    "shares": lambda store: store.queries.shares(),
    "past": lambda store: store.past.forget(NOW),
    "sent": lambda store: store.event_retention.forget_notifications(NOW),
    "logs": lambda store: store.database.write(
        lambda connection: log_volumes.delete_some(connection, NOW + 10, LogConstants(retention=1))
    ),
    "payload": lambda store: store.queries.payload_files(1, 1),
}
SMALL = {
    "absences",
    "counters",
    "counts",
    "lines",
    "levels",
    "queue_reports",
    "bounds",
    "federations",
    "json_each",
}
SMALL |= {
    "numbers",
    "failures",
    "circuit_breakers",
    "last_transfers",
    "advertisements",
    "last",
    "storage_spaces",
    "log_volumes",
    "pragma_page_count",
    "pragma_page_size",
    "measurements",
}
SMALL |= {"candidates"}  # of so many choices
"""What may be read whole: it does not grow with the work."""

WHOLE = re.compile(r"SCAN (\w+)(?! USING (?:COVERING )?INDEX jobs_at_pilots)\b")
"""A walk through a table or an index, but for an index that has nothing but what is asked for."""


@pytest.fixture
def busy(sqlite_url: str) -> Store:
    """A store with something of everything."""
    store = Store.open(sqlite_url)
    bare = replace(FEDERATION.queues[0], name="bare-q")
    store.save_federation(replace(FEDERATION, queues=(*FEDERATION.queues, bare)), "tester")
    create(store, *(File(name=name, size=1, checksum="") for name in "abc"))
    task = new_task(store)
    asked = requirements(container=True)
    without = new_pilot(store, "bare-q", requirements=asked)
    store.commit(decision(Touch(kind="pilot", ids=(without,), changes={"lacks": "containers"})), "tester")
    missing = new_jobs(store, task, 2, requirements=asked)
    moved(store, move("job", missing, J.DEFINED, J.ACTIVATED, {"queue": "bare-q"}))
    new_jobs(store, task, 5, inputs=("a",))
    bring(store, new_jobs(store, task, 5), J.ACTIVATED)
    bring(store, new_jobs(store, task, 1), J.RUNNING, pilot=new_pilot(store))
    elastic(store, task, 2, inputs=("a",))
    waiting = new_jobs(store, task, 2, inputs=("a",))
    moved(store, move("job", waiting, J.DEFINED, J.ASSIGNED, {"queue": "PIC-q"}))
    a, b, _ = create(store, *(new_transfer(name) for name in "abc"))
    x = TransferState
    moved(
        store,
        *passage([a, b], x.QUEUED, x.DELIVERING),
        *passage([a], x.DELIVERING, x.FINISHING),
    )
    for dataset in ("rucio~user.alice:x", "other~user.alice:x"):
        create(
            store, *(NewPublication(task=1, dataset=dataset, asked=NOW, file=file) for file in ("a", "b", ""))
        )
    store.logs.put([(node_log(LogKey(kind="pilot", record=1), {}), ALICE)], NOW)
    store.log_retention.prune(NOW, LogConstants())
    return store


class Watched:
    """SQLite's driver, with a note of what it is asked."""

    def __init__(self, driver: sqlite3.Connection, note: Callable[[str, Any], None]) -> None:
        self._driver, self._note = driver, note

    def execute(self, statement: str, values: Any) -> Any:
        self._note(statement, values)
        return self._driver.execute(statement, values)

    def executemany(self, statement: str, rows: Any) -> Any:
        self._note(statement, rows[0])
        return self._driver.executemany(statement, rows)


@pytest.mark.parametrize("name", PASSES)
def test_every_query_of_a_pass_finds_its_rows_by_an_index(
    busy: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with a limit takes them in order, too: to sort them it would have to read them all."""
    asked: dict[str, Any] = {}

    def note(statement: str, values: Any) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")):
            asked.setdefault(statement, tuple(values))

    @event.listens_for(busy.database.engine, "before_cursor_execute")
    def listen(
        _connection: Any, _cursor: Any, statement: str, values: Any, _context: Any, many: bool
    ) -> None:
        note(statement, values[0] if many else values)

    driver = dialects.driver
    monkeypatch.setattr(dialects, "driver", lambda connection: Watched(driver(connection), note))
    PASSES[name](busy)
    event.remove(busy.database.engine, "before_cursor_execute", listen)
    assert asked
    with busy.database.engine.connect() as connection:
        for statement, values in asked.items():
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
            walked = {match[1] for step in plan if (match := WHOLE.match(step))}
            assert walked <= SMALL, f"{statement}\n{plan}"
            if "FROM tasks" not in statement and "LIMIT" in statement:
                assert "USE TEMP B-TREE FOR ORDER BY" not in plan, f"{statement}\n{plan}"
    busy.close()


def test_jobs_of_pilots_are_found_by_the_pilots(busy: Store) -> None:
    """However many jobs run at others, a report reads those of its own pilot."""
    dialect = busy.database.engine.dialect
    query = str(select(jobs.c.id).where(held_by("pilots")).compile(dialect=dialect))
    with busy.database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", ("[1]",)).all()
    lines = [row[-1] for row in plan]
    assert any("jobs_at_pilots" in line for line in lines)
    assert not any("jobs_by_state" in line for line in lines)


def test_unfinished_work_is_added_up_from_an_index_alone(busy: Store) -> None:
    with busy.database.engine.connect() as connection:
        query = str(LIVE_WORK.compile(dialect=busy.database.engine.dialect))
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", ("atlas",)).all()
    assert next(row[-1] for row in plan).startswith("SEARCH tasks USING COVERING INDEX tasks_live (vo=?")


def test_b12_disk_io_of_running_jobs_is_averaged_from_an_index_alone(busy: Store) -> None:
    with busy.database.engine.connect() as connection:
        query = str(DISK_IO.compile(dialect=busy.database.engine.dialect))
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}").all()
    assert [row[-1] for row in plan] == ["SEARCH jobs USING COVERING INDEX jobs_by_disk_io (state=?)"]


def test_postgresql_finds_the_counts_of_a_task_by_an_index(postgresql_url: str) -> None:
    """However many tasks are counted: their completion looks up one after the other."""
    store = Store.open(postgresql_url)
    query = select(counts.c.count).where(counts.c.counter == "jobs_by_task", counts.c.first == "1")
    statement = query.compile(dialect=store.database.engine.dialect, compile_kwargs={"literal_binds": True})
    with store.database.engine.begin() as connection:
        # A table of a few rows is read whole, whatever its indexes.
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = [row[0] for row in connection.exec_driver_sql(f"EXPLAIN {statement}")]
    store.close()
    (found,) = [line for line in plan if "Index Cond" in line]
    assert "(first)::text = '1'::text" in found


def test_tasks_of_a_site_are_found_by_the_jobs_of_each_task(busy: Store) -> None:
    """However many jobs the house has, only those of tasks that the other filters leave are read."""
    engine = busy.database.engine
    wanted = [
        tasks.c.vo == "a",
        tasks.c.owner == "b",
        *conditions_of(TaskFilter(queues=("q",)), busy.database.dialect),
    ]
    compiled = select(tasks.c.id).where(*wanted).compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}").all()
    lines = [row[-1] for row in plan if "jobs" in row[-1]]
    assert len(lines) == 1
    assert lines[0].startswith("SEARCH jobs USING INDEX jobs_by_task (task=?")
