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
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.exc import DatabaseError

from pilotage import store
from pilotage.store import NewerStore, Store, UnreleasedStore, schema, upgrading
from pilotage.store.database.engine import Database
from pilotage.store.migrations import functions
from pilotage.store.records import with_all_indexes

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

    assert database.read(differences) == []
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


def test_an_upgrade_drops_no_function_that_former_servers_call(postgresql_url: str) -> None:
    """A server that plans a call of a dropped function fails, even if another takes its name."""
    database = Database(postgresql_url)
    functions_now = text("SELECT proname, oid FROM pg_proc WHERE proname ~ '^(give|borrow)_jobs'")

    def rename(connection: Connection) -> None:
        """Leave the functions of another release, which have other names."""
        connection.execute(text(f"ALTER FUNCTION {functions.GIVE_JOBS} RENAME TO give_jobs_00000000"))
        connection.execute(text(f"ALTER FUNCTION {functions.BORROW_JOBS} RENAME TO borrow_jobs_00000000"))

    def named(connection: Connection) -> dict[str, int]:
        return {str(one.proname): int(one.oid) for one in connection.execute(functions_now)}

    current = database.read(named).keys()
    database.write(rename)
    former = database.read(named)
    assert not Store.is_current(postgresql_url)
    upgrading.upgrade(postgresql_url)
    assert database.read(named).items() >= former.items()
    assert database.read(named).keys() == former.keys() | current
    database.write(schema.finish)
    assert database.read(named).keys() == current
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
    with pytest.raises(NewerStore, match="has version 9999"):
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


def test_a_store_that_no_release_made_is_left_alone_and_its_owner_hears_what_to_do(store_url: str) -> None:
    engine = create_engine(store_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0194'"))
    with pytest.raises(UnreleasedStore, match=r"schema 0194, which no release has.*history archive"):
        Store.open(store_url)
    engine.dispose()
