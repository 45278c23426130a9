"""Backups: whole, private, without tokens, and refused where they would harm."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect, make_url, text

from pilotage.model.records.states import STATES, JobState, PilotState
from pilotage.model.values.identity import Credential
from pilotage.model.values.paths import scratch_path
from pilotage.store import NewerStore, Store, StoreError, backup, schema
from pilotage.store.migrations import functions
from pilotage.store.restore import restore
from pilotage.store.restored import ATTEMPTS_SKIPPED, LEAST_SKIPPED, NUMBERED, restored
from pilotage.testing import ALICE
from pilotage.testing.stores import FEDERATION, bring, move, moved, new_jobs, new_pilot, new_task, states
from tests import postgresql
from tests.next_release import REVISION, add_migration

SECRET = "a-token-that-nobody-guesses"


@pytest.fixture
def filled(store_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with a federation and a token."""
    monkeypatch.setenv("PATH", str(postgresql.PROGRAMS), prepend=":")
    opened = Store.open(store_url, new_token=lambda: SECRET)
    opened.save_federation(FEDERATION, "test")
    opened.tokens.create(Credential(role="user", identity=ALICE))
    opened.notification_settings.make_secret(ALICE)
    opened.close()
    return store_url


def test_a_backup_brings_all_back_but_the_tokens(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    size = backup.backup(filled, file)
    assert size == file.stat().st_size
    assert file.stat().st_mode & 0o777 == 0o600
    store = Store.open(filled)
    assert store.tokens.find(SECRET)
    assert store.notification_settings.secret(ALICE.vo, ALICE.name) == SECRET
    store.save_federation(FEDERATION, "later")
    changed = store.version()
    store.close()
    with pytest.raises(backup.BackupError, match="--replace"):
        restore(filled, file)
    restore(filled, file, replace=True)
    store = Store.open(filled)
    assert (store.version(), changed) == (1, 2)
    assert store.federation() == FEDERATION
    assert store.tokens.find(SECRET) is None
    assert store.notification_settings.secret(ALICE.vo, ALICE.name) == ""
    store.close()
    with pytest.raises(backup.BackupError, match="exists already"):
        backup.backup(filled, file)


@pytest.fixture
def empty(filled: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """An empty store of the same kind: no file, or a database as createdb makes it, with schema public."""
    if filled.startswith("sqlite"):
        return f"sqlite:///{tmp_path}/empty.db"
    url: str = request.getfixturevalue("empty_postgresql_url")
    return url


@contextmanager
def statements(url: str) -> Iterator[Connection]:
    engine = create_engine(make_url(url))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def test_a_backup_comes_back_in_an_empty_store(filled: str, empty: str, tmp_path: Path) -> None:
    store = Store.open(filled)
    task = new_task(store)
    jobs = new_jobs(store, task, 2, inputs=("a", "b"))
    numbered = store.version()
    store.close()
    backup.backup(filled, tmp_path / "backup")
    restore(empty, tmp_path / "backup")
    store = Store.open(empty)
    assert store.version() == numbered
    assert set(states(store, task).values()) == {JobState.DEFINED}
    store.save_federation(FEDERATION, "somebody new")  # an event with a number of a sequence
    assert set(new_jobs(store, new_task(store), 2)).isdisjoint(jobs)
    store.close()


def test_a_backup_of_a_former_release_comes_back_up_to_date(
    filled: str, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup.backup(filled, tmp_path / "backup")
    migrations = tmp_path / "migrations"
    shutil.copytree(Path(functions.__file__).parent, migrations)
    add_migration(migrations)
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    schema.newest.cache_clear()
    try:
        restore(empty, tmp_path / "backup")
        with statements(empty) as connection:
            assert schema.version_of(connection) == REVISION
            assert inspect(connection).has_table("of_the_next_release")
    finally:
        schema.newest.cache_clear()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("DROP TABLE failures", "lacks failures"),
        ("ALTER TABLE tasks DROP COLUMN on_end", "lacks tasks.on_end"),
        ("DELETE FROM alembic_version", "no version"),
        ("DROP TABLE alembic_version", "no version"),
        ("UPDATE alembic_version SET version_num = '0001'", "no release has"),
    ],
)
def test_an_incomplete_backup_leaves_the_store_as_it_is(
    filled: str, empty: str, tmp_path: Path, change: str, fault: str
) -> None:
    Store.open(empty).close()
    with statements(empty) as connection:
        connection.execute(text(change))
    backup.backup(empty, tmp_path / "backup")
    with pytest.raises((backup.BackupError, StoreError), match=fault):
        restore(filled, tmp_path / "backup", replace=True)
    store = Store.open(filled)
    assert store.tokens.find(SECRET)
    assert store.federation() == FEDERATION
    store.close()


PLANTED = {
    "sqlite": """
        CREATE VIEW planted AS SELECT 1;
        CREATE VIRTUAL TABLE planted_words USING fts5(word);
        CREATE TABLE planted_rows (x INTEGER);
        CREATE TRIGGER planted_trigger AFTER INSERT ON leases BEGIN DELETE FROM tasks; END""",
    "postgresql": """
        CREATE VIEW planted AS SELECT 1;
        CREATE TABLE planted_rows (x INTEGER);
        INSERT INTO planted_rows VALUES (1);
        CREATE FUNCTION planted_function() RETURNS trigger LANGUAGE plpgsql
          AS $$ BEGIN DELETE FROM tasks; RETURN NULL; END $$;
        CREATE RULE planted_rule AS ON INSERT TO servers DO ALSO DELETE FROM tasks;
        CREATE TRIGGER planted_trigger AFTER INSERT ON leases EXECUTE FUNCTION planted_function()""",
}
NAMES = {
    "sqlite": "SELECT name FROM sqlite_master",
    "postgresql": """
        SELECT relname FROM pg_class UNION SELECT proname FROM pg_proc UNION SELECT tgname FROM pg_trigger
        UNION SELECT rulename FROM pg_rewrite""",
}


def test_only_rows_of_a_backup_reach_the_store(filled: str, empty: str, tmp_path: Path) -> None:
    kind = make_url(filled).get_backend_name()
    with statements(filled) as connection:
        for statement in PLANTED[kind].split(";\n        CREATE "):
            connection.exec_driver_sql(statement if "CREATE" in statement[:20] else f"CREATE {statement}")
    backup.backup(filled, tmp_path / "backup")
    for url in (empty, filled):
        restore(url, tmp_path / "backup", replace=True)
    with statements(empty) as connection:
        names = connection.execute(text(NAMES[kind])).scalars()
        assert not [name for name in names if "planted" in name]
    with statements(filled) as connection:
        assert schema.is_current(connection)


def test_files_of_backups_may_have_any_name(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "50% of #1? -x"
    backup.backup(filled, file)
    restore(filled, file, replace=True)
    assert [one.name for one in tmp_path.glob("50*")] == [file.name]


def test_a_store_of_a_former_version_is_backed_up_as_it_is(filled: str, tmp_path: Path) -> None:
    engine = create_engine(make_url(filled))
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE notification_settings"))
    engine.dispose()
    assert backup.backup(filled, tmp_path / "backup")


@pytest.mark.parametrize("server", ["", "3f9a1c0b2d"])
def test_a_store_in_use_is_not_replaced(filled: str, tmp_path: Path, server: str) -> None:
    file = tmp_path / "backup"
    backup.backup(filled, file)
    used = Store.open(filled, server=server)
    used.federation()
    with pytest.raises(backup.BackupError, match="end"):
        restore(filled, file, replace=True)
    with pytest.raises(backup.BackupError, match="end"):
        backup.refuse_while_used(filled)
    used.close()
    backup.refuse_while_used(filled)


def test_what_is_no_fitting_backup_is_refused_with_nothing_changed(filled: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("nothing of ours")
    with pytest.raises(backup.BackupError, match="is no backup"):
        restore(filled, other, replace=True)
    is_sqlite = filled.startswith("sqlite")
    other.write_bytes(b"PGDMP" if is_sqlite else b"SQLite format 3\0")
    with pytest.raises(backup.BackupError, match="is a backup of"):
        restore(filled, other, replace=True)
    newer = tmp_path / "newer"
    engine = create_engine(make_url(filled))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    backup.backup(filled, newer)
    with pytest.raises(NewerStore, match="9999"):
        restore(filled, newer, replace=True)


def test_a_damaged_backup_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.open(url).close()
    file = tmp_path / "back#up%41"
    backup.backup(url, file)
    data = bytearray(file.read_bytes())
    data[8192:12288] = bytes(range(256)) * 16
    file.write_bytes(data)
    with pytest.raises(backup.BackupError, match="damaged"):
        restore(url, file, replace=True)


def test_every_kind_of_number_is_skipped_also_where_none_was_given(filled: str) -> None:
    store = Store.open(filled)
    done = restored(store)
    found = store.database.read(
        lambda connection: connection.execute(text("SELECT kind, last FROM numbers")).all()
    )
    last = {row.kind: row.last for row in found}
    assert last.keys() == {*STATES, "decision"} == {*NUMBERED}
    assert set(last.values()) == {LEAST_SKIPPED}
    assert (done.newest_task, done.next_task) == (None, LEAST_SKIPPED + 1)
    restored(store)
    assert store.matches_begin() >= done.matches_begin > store.clock()
    again = Store.open(filled)
    assert again.clock() < done.matches_begin, "a server that starts takes this time for the present"
    again.close()
    restored(store, pilots_ended=True)
    assert store.matches_begin() <= store.clock()
    store.close()


def test_jobs_of_before_go_on_at_once_and_nothing_counts_against_queues(filled: str) -> None:
    store = Store.open(filled)
    pilot = new_pilot(store)
    moved(store, move("pilot", [pilot], PilotState.CREATED, PilotState.RUNNING))
    waiting = new_pilot(store)
    reached = (JobState.ACTIVATED, JobState.SENT, JobState.STARTING, JobState.RUNNING)
    task = new_task(store)
    jobs = new_jobs(store, task, len(reached))
    for job, state in zip(jobs, reached, strict=True):
        bring(store, [job], state, pilot=pilot)
    done = restored(store, pilots_ended=True)
    assert (done.jobs, done.pilots) == (4, 2)
    seen = store.queries.jobs(task, None, 10)
    assert [job.state for job in seen] == [JobState.ACTIVATED, *[JobState.DEFINED] * 3]
    assert {job.attempt for job in seen} == {1 + ATTEMPTS_SKIPPED}
    ended = [store.queries.pilot(one) for one in (pilot, waiting)]
    assert [one and one.state for one in ended] == [PilotState.FINISHED, PilotState.CANCELLED]
    assert store.snapshots.failures(store.clock()) == ()
    areas = {one.path for one in store.removals.take_due(store.clock(), ())}
    assert areas == {scratch_path(FEDERATION.name, job, 1) for job in jobs[1:]}, "what pilots of before left"
    store.close()


def test_another_call_leaves_the_tokens_that_were_made_while_jobs_wait(filled: str) -> None:
    store = Store.open(filled, new_token=iter(["later", "last"]).__next__)
    restored(store)
    assert store.tokens.find(SECRET) is None
    store.tokens.create(Credential(role="operator", identity=ALICE))
    restored(store, pilots_ended=True)
    assert store.tokens.find("later")
    restored(store)
    assert store.tokens.find("later") is None, "nobody waits: this is another way back"
    store.close()
