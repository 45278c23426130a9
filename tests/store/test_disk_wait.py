"""SQLite answers after its commit is on the disk. Commits that end about the same time wait together."""

import errno
import os
import threading
from pathlib import Path

import pytest

from pilotage.model.records.matching import ClaimRequest, Head
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState as P
from pilotage.store import Store
from pilotage.store.database.disk_wait import DiskWait
from pilotage.store.database.driver_errors import outage
from pilotage.store.database.errors import DiskFailed
from pilotage.testing import NOW
from pilotage.testing.stores import decision, move, new_jobs, new_pilot, new_task
from tests.waiting import wait_for


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were written to the disk."""
    files = list[str]()

    def sync(number: int) -> None:
        files.append(Path(f"/proc/self/fd/{number}").readlink().name.partition("-")[2])

    monkeypatch.setattr(os, "fdatasync", sync)
    return files


def test_commits_and_matches_with_jobs_wait_for_the_log(sqlite_url: str, waits: list[str]) -> None:
    store = Store.open(sqlite_url)
    (job,) = new_jobs(store, new_task(store), 1)
    store.commit(decision(move("job", [job], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"})), "broker")
    pilot = new_pilot(store)
    for step in ((P.CREATED, P.SUBMITTED), (P.SUBMITTED, P.RUNNING)):
        store.commit(decision(move("pilot", [pilot], *step)), "director")
    assert set(waits) == {"wal"}
    waits.clear()
    store.heartbeats.beat([pilot], NOW)
    assert not waits
    claim = ClaimRequest(pilot=pilot, queue="CERN-q", heads=(Head(requirements="r", priority=500, jobs=1),))
    (first,) = store.matches.commit(decision(claim))
    assert [given.id for given in first.jobs] == [job]
    assert set(waits) == {"wal"}
    waits.clear()
    (second,) = store.matches.commit(decision(claim))
    assert (second.jobs, waits) == ((), [])
    store.close()


def test_who_comes_while_another_waits_shares_the_next_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store.db-wal").touch()
    disk, begun, go_on = DiskWait(tmp_path / "store.db"), threading.Semaphore(0), threading.Semaphore(0)
    answered: list[int] = []

    def sync(_: int) -> None:
        begun.release()
        go_on.acquire()

    def wait(number: int) -> None:
        disk.wait()
        answered.append(number)

    monkeypatch.setattr(os, "fdatasync", sync)
    threads = [threading.Thread(target=wait, args=(number,)) for number in range(5)]
    threads[0].start()
    assert begun.acquire(timeout=60)
    for thread in threads[1:]:
        thread.start()
    # Each has its number once it waits for the lock.
    wait_for(lambda: next(disk._numbers) >= 6, "that all wait")
    go_on.release()
    assert begun.acquire(timeout=60)
    wait_for(lambda: answered, "the first answer")
    assert answered == [0], "the first wait began before the others' commits ended"
    go_on.release()
    for thread in threads:
        thread.join(60)
    assert len(answered) == 5
    assert not begun.acquire(blocking=False), "one wait was for all four"


def test_a_disk_that_failed_once_is_trusted_with_nothing_more(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(sqlite_url)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fail)
        with pytest.raises(
            DiskFailed, match=r"could not be written to the disk: .*-wal: Input/output error"
        ) as told:
            new_task(store)
    assert "the store cannot be used now" in outage(told.value)
    with pytest.raises(DiskFailed):
        new_task(store)
    store.close()
    again = Store.open(sqlite_url)
    new_task(again)
    again.close()


def test_a_link_to_a_store_leads_to_its_log(sqlite_url: str, tmp_path: Path, waits: list[str]) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(sqlite_url.removeprefix("sqlite:///"))
    store = Store.open(f"sqlite:///{link}")
    waits.clear()
    new_task(store)
    assert waits
    store.close()


def test_a_log_that_cannot_be_opened_now_is_an_outage_that_passes(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(sqlite_url)
    opened = os.open

    def fail(path: str, *arguments: int) -> int:
        if path.endswith("-wal"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fail)
        with pytest.raises(DiskFailed, match="Too many open files") as told:
            new_task(store)
    assert "the store cannot be used now" in outage(told.value)
    new_task(store)
    store.close()
