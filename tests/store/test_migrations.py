"""A store that was migrated from nothing is what the tables say, on both databases."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, inspect, select, text
from sqlalchemy.exc import DatabaseError

from pilotage import store
from pilotage.model.records.states import Kind
from pilotage.store import NewerStore, Store
from pilotage.store.database.engine import Database
from pilotage.store.tables.history import decisions_of
from pilotage.store.tables.jobs import jobs
from pilotage.store.tables.records import with_all_indexes
from pilotage.testing.records import NOW
from pilotage.testing.stores import FEDERATION, new_jobs
from tests.reading import BROKERED, world_of

CATALOGUE = {
    # Not the text of a table, to which a migration appends: its columns.
    "sqlite": """
        SELECT name, sql FROM sqlite_master WHERE type = 'index'
        UNION ALL SELECT tables.name || '.' || columns.name,
          printf('%s %s %s %s %s', columns.type, "notnull", dflt_value, pk, cid)
          FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'
    """,
    "postgresql": """
        SELECT tablename || '.' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT table_name || '.' || column_name,
          concat_ws(' ', data_type, is_nullable, column_default, ordinal_position)
          FROM information_schema.columns WHERE table_schema = 'public'
        UNION ALL SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
          WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT proname, pg_get_functiondef(oid) FROM pg_proc
          WHERE pronamespace = 'public'::regnamespace
    """,
}


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[str]:
    """The address of a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/new/empty.db"
    else:
        yield request.getfixturevalue("empty_postgresql_url")


def catalogue(connection: Connection) -> dict[str, str]:
    """What the database itself says of its tables, columns, constraints, indexes and functions."""
    rows = connection.execute(text(CATALOGUE[connection.dialect.name]))
    return {name: " ".join(str(sql).split()) for name, sql in rows}


def rows(connection: Connection) -> dict[str, list[Any]]:
    """What lies in the tables, of those that are not empty."""
    tables = inspect(connection).get_table_names()
    found = {
        name: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {name}"))] for name in tables
    }
    return {name: lines for name, lines in found.items() if lines}


def test_migrating_from_nothing_gives_the_tables(empty_url: str) -> None:
    older(empty_url, "head").dispose()
    database, metadata = Database(empty_url), with_all_indexes()

    def differences(connection: Connection) -> Any:
        return compare_metadata(MigrationContext.configure(connection), metadata)

    left = [one for one in database.read(differences) if not _is_elsewhere(database, one)]
    assert left == []
    migrated = database.read(catalogue)
    assert len(migrated) > 30
    assert database.read(rows).keys() == {"alembic_version"}
    versions = database.read(rows)
    database.write(empty)
    assert database.read(catalogue) == {}
    Store.open(empty_url).close()
    assert database.read(catalogue) == migrated
    assert database.read(rows) == versions
    database.close()


def empty(connection: Connection) -> None:
    """Drop all that there is."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
        return
    for name in inspect(connection).get_table_names():
        connection.execute(text(f"DROP TABLE {name}"))


def test_a_store_that_lost_its_version_is_no_new_one(store_url: str) -> None:
    """Its tables are there: making them anew would take them for empty."""
    database = Database(store_url)
    database.write(lambda connection: connection.execute(text("DROP TABLE alembic_version")))
    with pytest.raises(DatabaseError, match="already exists"):
        Store.open(store_url)
    database.close()


def _is_elsewhere(database: Database, difference: Any) -> bool:
    """Tell an index that is for PostgreSQL alone: the comparison does not look at that."""
    what, index, *_ = difference
    return not database.is_postgresql and what == "add_index" and index.name == "files_by_character"


def test_opening_again_changes_nothing(store_url: str) -> None:
    database = Database(store_url)
    before = database.read(catalogue)
    Store.open(store_url).close()
    assert database.read(catalogue) == before
    database.close()


def test_several_may_open_a_new_store_at_once(empty_url: str) -> None:
    barrier = threading.Barrier(4)
    errors: list[BaseException] = []

    def opens() -> None:
        barrier.wait()
        try:
            Store.open(empty_url).close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=opens) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_store_of_a_newer_program_is_left_alone(store_url: str) -> None:
    engine = create_engine(store_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerStore, match="of version 9999"):
        Store.open(store_url)
    engine.dispose()


def older(url: str, version: str) -> Engine:
    """A new store of an older program, as its migrations left it."""
    engine = Database(url).engine
    config = Config()
    config.set_main_option("script_location", str(Path(store.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
    return engine


TASK = """
INSERT INTO tasks (id, priority, owner, vo, "group", vo_role, state, created, since, spec)
VALUES (3, 500, 'alice', 'atlas', '', '', 'running', 1, 1, '{"name": "t"}')"""
JOB = """
INSERT INTO jobs (id, task, kind, priority, state, attempt, created, since, events, input_count)
VALUES (7, 3, 'normal', 500, 'finished', 2, 1, 9, 1, 0)"""
TRANSFER = """
INSERT INTO transfers (id, file, source, destination, direction, priority, state, created, since, emergency)
VALUES (:id, :file, 'CERN-disk', 'PIC-disk', :direction, 1, 'queued', 1, 1, false)"""
EVENT = """
INSERT INTO events (kind, record, task, attempt, source, target, time, cause, actor, decision)
VALUES (:kind, :record, 3, :attempt, :source, :target, :time, :cause, :actor, :decision)"""


def test_links_of_an_older_store_are_counted_anew_by_direction(empty_url: str) -> None:
    engine = older(empty_url, "0006")
    with engine.begin() as connection:
        for id_, file, direction in ((1, "a", "download"), (2, "b", "download"), (3, "c", "upload")):
            values = {"id": id_, "file": file, "direction": direction}
            connection.execute(text(TRANSFER), values)
        connection.execute(
            text("INSERT INTO counters VALUES ('transfers_by_link', 'CERN-disk', 'PIC-disk', 'queued', 3)")
        )
    engine.dispose()
    opened = Store.open(empty_url)
    opened.save_federation(FEDERATION, "test")
    found = world_of(opened, BROKERED, NOW, 1, 1).link_counts
    assert [(count.files, count.uploads) for count in found] == [(3, 1)]
    opened.close()


def test_events_of_an_older_store_become_the_histories_of_its_records(empty_url: str) -> None:
    told = [
        ("job", 7, 1, None, "defined", 1.5, "split", "split", None),
        ("task", 3, 1, None, "registered", 1.0, "submitted", "user:alice", None),
        ("job", 7, 1, "defined", "activated", 2.25, "brokered (B38)", "broker:production", 12),
        ("job", 7, 1, "activated", "sent", 3.125, "matched", "pilot:40", None),
        ("job", 7, 1, "sent", "defined", 4.0, "lost", "watch", None),
        ("job", 7, 2, "defined", "activated", 5.0, "brokered (B38)", "broker:production", 13),
        ("job", 7, 2, "sent", "finished", 9.0, "done", "pilot:41", None),
    ]
    names = ("kind", "record", "attempt", "source", "target", "time", "cause", "actor", "decision")
    engine = older(empty_url, "0010")
    with engine.begin() as connection:
        connection.execute(text(TASK))
        connection.execute(text(JOB))
        connection.execute(text(EVENT), [dict(zip(names, event, strict=True)) for event in told])
    engine.dispose()
    opened = Store.open(empty_url)
    records: tuple[tuple[Kind, int], ...] = (("job", 7), ("task", 3))
    for kind, record in records:
        events = opened.queries.events(kind, record)
        assert [(kind, record, e.attempt, e.source, e.target, e.time, e.cause, e.actor) for e in events] == [
            event[:-1] for event in told if event[:2] == (kind, record)
        ]
    assert decisions_of(opened.database.read(lambda c: c.execute(select(jobs.c.history)).scalar_one())) == [
        12,
        13,
    ]
    (created,) = new_jobs(opened, 3)
    assert created == 8
    opened.close()


FILE = "INSERT INTO files (name, size, checksum, task, job) VALUES (:name, 1, '', :task, :job)"
TASK_OF = """
INSERT INTO tasks (id, priority, owner, vo, "group", vo_role, state, created, since, spec)
VALUES (:id, 500, 'alice', :vo, '', '', :state, 1, 1, :spec)"""
JOB_OF = """
INSERT INTO jobs (id, task, kind, priority, state, attempt, created, since, events, input_count)
VALUES (:id, :task, 'normal', 500, 'defined', 1, 1, 1, 1, 1)"""


def test_files_of_an_older_store_get_the_scopes_of_those_who_name_them(empty_url: str) -> None:
    engine = older(empty_url, "0014")
    unsplit = '{"name": "t", "inputs": [{"name": "late", "size": 1, "replicas": ["PIC-disk"]}]}'
    with engine.begin() as connection:
        for id_, vo, state, spec in (
            (3, "atlas", "running", '{"name": "t"}'),
            (4, "", "running", '{"name": "t"}'),
            (5, "ligo", "registered", unsplit),
        ):
            values = {"id": id_, "vo": vo, "state": state, "spec": spec}
            connection.execute(text(TASK_OF), values)
        for name, task, job in (
            ("shared", None, None),
            ("late", None, None),
            ("unknown", None, None),
            ("tasks/n/3/7/o", 3, 7),
            ("tasks/n/1/1/o", 1, 1),
        ):
            connection.execute(text(FILE), {"name": name, "task": task, "job": job})
            connection.execute(text("INSERT INTO replicas VALUES (:name, 'PIC-disk')"), {"name": name})
        for job, task in ((7, 3), (8, 4)):
            connection.execute(text(JOB_OF), {"id": job, "task": task})
            connection.execute(text("INSERT INTO job_inputs VALUES (:job, 0, 'shared')"), {"job": job})
        connection.execute(text(TRANSFER), {"id": 1, "file": "tasks/n/3/7/o", "direction": "upload"})
    engine.dispose()
    opened = Store.open(empty_url)

    def names(query: str) -> list[tuple[Any, ...]]:
        return opened.database.read(lambda c: [tuple(row) for row in c.execute(text(query)).all()])

    ours = "user.alice~atlas:tasks/n/3/7/o"
    everything = ["atlas:shared", "ligo:late", "nobody~:tasks/n/1/1/o", "user.alice:shared", ours]
    assert names("SELECT name FROM files ORDER BY name") == [(name,) for name in sorted(everything)]
    assert sorted(names("SELECT file, storage, path FROM replicas")) == sorted(
        (name, "PIC-disk", "") for name in everything
    )
    assert names("SELECT job, file FROM job_inputs ORDER BY job") == [
        (7, "atlas:shared"),
        (8, "user.alice:shared"),
    ]
    assert names("SELECT file FROM transfers") == [(ours,)]
    unmade = opened.queries.task(5)
    assert unmade is not None
    assert [file.scope for file in unmade.spec.inputs] == ["ligo"]
    opened.close()


def test_b12_running_jobs_of_an_older_store_have_no_rate_and_means_of_runs_stay(empty_url: str) -> None:
    engine = older(empty_url, "0045")
    with engine.begin() as connection:
        connection.execute(text(TASK))
        connection.execute(text(JOB))
        connection.execute(text(JOB.replace("7, 3", "8, 3").replace("'finished'", "'running'")))
        connection.execute(text("UPDATE jobs SET disk_io = 3000, queue = 'CERN'"))
        connection.execute(text("INSERT INTO queue_reports VALUES ('CERN', 1, 2, 3000, 600)"))
    engine.dispose()
    opened = Store.open(empty_url)
    opened.save_federation(FEDERATION, "test")
    assert [opened.queries.job(job).disk_io for job in (7, 8)] == [3000, None]  # type: ignore[union-attr]
    (report,) = world_of(opened, "rebind", NOW, 1, 1).queue_reports
    assert (report.last_pilot, report.last_start, report.mean_run) == (1, 2, 600)
    opened.close()


def test_f4_failed_deliveries_of_an_older_store_trip_their_circuit_breakers_still(empty_url: str) -> None:
    engine = older(empty_url, "0046")
    with engine.begin() as connection:
        for number in range(1, 4):
            row = {"transfer": number, "file": f"f{number}", "time": NOW + number / 7}
            connection.execute(
                text(
                    "INSERT INTO failed_deliveries VALUES"
                    " (:transfer, 0, 1, 0, '', :file, 'CERN-disk', '', :time, 'refused: “é”')"
                ),
                row,
            )
    engine.dispose()
    opened = Store.open(empty_url)
    opened.save_federation(FEDERATION, "test")
    world = opened.snapshots.whole(NOW + 1, 1)
    assert [one.time for one in world.failed_deliveries] == [NOW + number / 7 for number in range(1, 4)]
    (found,) = world.storage_breakers
    assert (found.place, found.failures, found.error) == (("CERN-disk", ""), 3, "refused: “é”")
    opened.close()
