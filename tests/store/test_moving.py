"""A store that moves from SQLite to PostgreSQL with its work, and rehearsals of restores."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from pilotage.model.records.states import JobState
from pilotage.model.values.identity import Credential
from pilotage.store import Store, backup, rehearsal
from pilotage.store.moving import move
from pilotage.store.rehearsal import rehearse
from pilotage.store.restore import fill_sqlite
from pilotage.testing import ALICE
from pilotage.testing.stores import FEDERATION, new_jobs, new_pilot, new_task, states
from tests import postgresql

SECRET = "a-token-that-nobody-guesses"


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(postgresql.PROGRAMS), prepend=":")


def fill(url: str) -> tuple[int, list[int]]:
    """Put a task, its jobs, a pilot and a token into a store; return the task and its jobs."""
    with closing(Store.open(url, new_token=lambda: SECRET)) as store:
        store.save_federation(FEDERATION, "test")
        store.tokens.create(Credential(role="user", identity=ALICE))
        task = new_task(store)
        jobs = new_jobs(store, task, 3, inputs=("a", "bü"))
        new_pilot(store)
        return task, list(jobs)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pilotage.db"


def test_a_store_moves_with_all_that_is_under_way(file: Path, empty_postgresql_url: str) -> None:
    task, jobs = fill(f"sqlite:///{file}")
    with closing(Store.open(f"sqlite:///{file}")) as store:
        before = store.event_log.visible()
    done = move(f"sqlite:///{file}", empty_postgresql_url)
    assert done.rows > 20
    assert not file.exists()
    with closing(Store.open(empty_postgresql_url)) as store:
        assert store.tokens.find(SECRET)
        assert set(states(store, task).values()) == {JobState.DEFINED}
        assert store.event_log.visible() == before
        store.save_federation(FEDERATION, "somebody new")  # an event with a number of a sequence
        assert set(new_jobs(store, new_task(store), 2)).isdisjoint(jobs)
    former = Path(done.former)
    assert former == file.with_name("pilotage.db.moved")
    with closing(Store.open(f"sqlite:///{former}")) as store:
        assert set(states(store, task).values()) == {JobState.DEFINED}


def test_a_move_that_cannot_be_made_changes_nothing(file: Path, empty_postgresql_url: str) -> None:
    url = f"sqlite:///{file}"
    with pytest.raises(backup.BackupError, match="there is no store"):
        move(url, empty_postgresql_url)
    fill(url)
    with pytest.raises(backup.BackupError, match="not on PostgreSQL"):
        move(url, f"sqlite:///{file}2")
    with pytest.raises(backup.BackupError, match="on PostgreSQL already"):
        move(empty_postgresql_url, empty_postgresql_url)
    with closing(Store.open(url)), pytest.raises(backup.BackupError, match="end the servers first"):
        move(url, empty_postgresql_url)
    Store.open(empty_postgresql_url).close()
    with pytest.raises(backup.BackupError, match="has tables already"):
        move(url, empty_postgresql_url)
    assert file.exists()
    with closing(Store.open(url)) as store:
        assert store.tokens.find(SECRET)


def test_a_row_that_differs_ends_the_move(
    file: Path, empty_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(f"sqlite:///{file}")
    digests: Iterator[int] = iter(range(1_000_000))
    monkeypatch.setattr("pilotage.store.moving.digest", lambda _: (1, next(digests)))
    with pytest.raises(backup.BackupError, match="nothing was moved"):
        move(f"sqlite:///{file}", empty_postgresql_url)
    assert file.exists()
    engine = create_engine(make_url(empty_postgresql_url))
    with engine.connect() as connection:
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert connection.execute(text(tables)).scalar() == 0
    engine.dispose()


def test_a_backup_is_rehearsed_while_the_store_is_used(store_url: str, tmp_path: Path) -> None:
    task, _ = fill(store_url)
    file = tmp_path / "backup"
    backup.backup(store_url, file)
    with closing(Store.open(store_url)) as store:
        entries = sorted(tmp_path.iterdir())
        done = rehearse(store_url, file)
        assert done.rows > 20
        assert done.tables > 20
        new_jobs(store, task, 1)
        assert len(states(store, task)) == 4
    assert sorted(tmp_path.iterdir()) == entries
    if store_url.startswith("postgresql"):
        engine = create_engine(make_url(store_url))
        with engine.connect() as connection:
            schemas = f"SELECT count(*) FROM pg_namespace WHERE nspname LIKE '{rehearsal.SCRATCH}%'"
            assert connection.execute(text(schemas)).scalar() == 0
        engine.dispose()


def test_a_damaged_backup_fails_its_rehearsal(store_url: str, tmp_path: Path) -> None:
    fill(store_url)
    file = tmp_path / "backup"
    backup.backup(store_url, file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(backup.BackupError):
        rehearse(store_url, file)
    file.write_text("no backup")
    with pytest.raises(backup.BackupError, match="is no backup"):
        rehearse(store_url, file)


def test_a_row_that_is_restored_otherwise_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, file = f"sqlite:///{tmp_path}/pilotage.db", tmp_path / "backup"
    fill(url)
    backup.backup(url, file)

    def slip(backup_file: Path, scratch: Path) -> None:
        fill_sqlite(backup_file, scratch)
        with closing(sqlite3.connect(scratch)) as connection, connection:
            connection.execute("UPDATE jobs SET attempt = attempt + 1")

    monkeypatch.setattr(rehearsal, "fill_sqlite", slip)
    with pytest.raises(backup.BackupError, match="the rows of jobs differ"):
        rehearse(url, file)
