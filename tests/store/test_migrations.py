"""A store that was migrated from nothing is what the tables say, on both databases."""

import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, create_engine, text

from pilotage.model.work import File
from pilotage.store import NewerStore, Store
from pilotage.store.engine import Database
from pilotage.store.records import metadata
from pilotage.testing.records import NOW
from pilotage.testing.stores import FEDERATION, create, new_transfer

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
    """What the database itself says of its tables, columns, constraints and indexes."""
    rows = connection.execute(text(CATALOGUE[connection.dialect.name]))
    return {name: " ".join(str(sql).split()) for name, sql in rows if "alembic" not in name}


def test_migrating_from_nothing_gives_the_tables(empty_url: str) -> None:
    Store.open(empty_url).close()
    database = Database(empty_url)

    def differences(connection: Connection) -> Any:
        return compare_metadata(MigrationContext.configure(connection), metadata)

    assert database.read(differences) == []
    migrated = database.read(catalogue)
    database.write(metadata.drop_all)
    database.write(metadata.create_all)
    assert migrated == database.read(catalogue)
    assert len(migrated) > 30
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
    with pytest.raises(NewerStore, match="of version 9999"):
        Store.open(store_url)
    engine.dispose()


def test_links_of_an_older_store_are_counted_anew_by_direction(store: Store, store_url: str) -> None:
    store.save_federation(FEDERATION, "test")
    create(store, *(File(name=name, size=1, checksum="") for name in "abc"))
    create(store, new_transfer("a"), new_transfer("b"), new_transfer("c", direction="upload"))
    expected = store.snapshots.for_broker(NOW, 1, 1).link_counts
    assert [(count.files, count.uploads) for count in expected] == [(3, 1)]
    engine = create_engine(store_url)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM counters WHERE counter = 'transfers_by_link'"))
        connection.execute(
            text("INSERT INTO counters VALUES ('transfers_by_link', 'CERN-disk', 'PIC-disk', 'queued', 3)")
        )
        # That one alone: those after it have been applied.
        with Operations.context(MigrationContext.configure(connection)):
            import_module("pilotage.store.migrations.versions.v0007_links_by_direction").upgrade()
    engine.dispose()
    assert store.snapshots.for_broker(NOW, 1, 1).link_counts == expected
