"""Backups: whole, private, without tokens, and refused where they would harm."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from pilotage.model.records.states import STATES
from pilotage.model.values.identity import Credential
from pilotage.store import NewerStore, Store, backup
from pilotage.store.restored import LEAST_SKIPPED, NUMBERED, restored
from pilotage.testing import ALICE
from pilotage.testing.stores import FEDERATION
from tests import postgresql

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
        backup.restore(filled, file)
    backup.restore(filled, file, replace=True)
    store = Store.open(filled)
    assert (store.version(), changed) == (1, 2)
    assert store.federation() == FEDERATION
    assert store.tokens.find(SECRET) is None
    assert store.notification_settings.secret(ALICE.vo, ALICE.name) == ""
    store.close()
    with pytest.raises(backup.BackupError, match="exists already"):
        backup.backup(filled, file)


def test_files_of_backups_may_have_any_name(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "50% of #1? -x"
    backup.backup(filled, file)
    backup.restore(filled, file, replace=True)
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
        backup.restore(filled, file, replace=True)
    with pytest.raises(backup.BackupError, match="end"):
        backup.refuse_while_used(filled)
    used.close()
    backup.refuse_while_used(filled)


def test_what_is_no_fitting_backup_is_refused_with_nothing_changed(filled: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("nothing of ours")
    with pytest.raises(backup.BackupError, match="is no backup"):
        backup.restore(filled, other, replace=True)
    is_sqlite = filled.startswith("sqlite")
    other.write_bytes(b"PGDMP" if is_sqlite else b"SQLite format 3\0")
    with pytest.raises(backup.BackupError, match="is a backup of"):
        backup.restore(filled, other, replace=True)
    newer = tmp_path / "newer"
    engine = create_engine(make_url(filled))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    backup.backup(filled, newer)
    with pytest.raises(NewerStore, match="9999"):
        backup.restore(filled, newer, replace=True)


def test_a_damaged_backup_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.open(url).close()
    file = tmp_path / "back#up%41"
    backup.backup(url, file)
    data = bytearray(file.read_bytes())
    data[8192:12288] = bytes(range(256)) * 16
    file.write_bytes(data)
    with pytest.raises(backup.BackupError, match="damaged"):
        backup.restore(url, file, replace=True)


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
