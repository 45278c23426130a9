"""A process that is stopped while it writes to SQLite's file is named, and nobody waits for it for ever."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pilotage.store import Store, StoreHeld, concerns_records, outage
from pilotage.store.database import writer_lock
from pilotage.store.servers import iterations
from tests.waiting import PATIENCE

HOLDS = """
import sys, time
from pilotage.store import Store
store = Store.open(sys.argv[1])
def work(connection):
    print("holding", flush=True)
    time.sleep(float(sys.argv[2]))
store.database.write(work)
store.close()
"""


@contextmanager
def holding(url: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A process that is the writer of a store for so long."""
    command = [sys.executable, "-c", HOLDS, url, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "holding\n"
            yield process
        finally:
            process.kill()


def note(store: Store) -> None:
    store.database.write(lambda connection: iterations.note(connection, "other", 1.0))


@pytest.mark.slow
def test_a_stopped_writer_is_named_and_waited_for_no_longer(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_lock, "STOPPED_FOR", 1.0)
    store = Store.open(sqlite_url)
    with holding(sqlite_url, 0.5) as process:
        os.kill(process.pid, signal.SIGSTOP)
        begun = time.monotonic()
        with pytest.raises(StoreHeld) as held:
            note(store)
        assert time.monotonic() - begun < 20
        for word in (f"process {process.pid} (python", "stopped", f"kill -CONT {process.pid}"):
            assert word in str(held.value)
            assert word in outage(held.value)
        assert f"process {process.pid}" in store.held_by()
        assert not concerns_records(held.value), "no record is set aside for it"
        assert store.version() == 0, "readers go on"
        os.kill(process.pid, signal.SIGCONT)
        process.wait(PATIENCE)
        note(store)
        assert store.held_by() == ""
    store.close()


@pytest.mark.slow
def test_a_writer_that_runs_is_waited_for_also_by_several_threads(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To bring a large store up to date takes longer than any other transaction."""
    monkeypatch.setattr(writer_lock, "STOPPED_FOR", 0.5)
    store = Store.open(sqlite_url)
    with holding(sqlite_url, 3.0):
        threads = [threading.Thread(target=note, args=(store,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)
    assert store.database.read(lambda connection: iterations.last(connection, "other")) == 1.0
    store.close()


@pytest.mark.slow
def test_no_turn_is_waited_for_for_ever(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_lock, "LONGEST_TURN", 2.0)
    monkeypatch.setattr(writer_lock, "STOPPED_FOR", 1.0)
    store = Store.open(sqlite_url)
    with holding(sqlite_url, 30.0):
        raised: list[StoreHeld] = []

        def write() -> None:
            with pytest.raises(StoreHeld) as held:
                note(store)
            raised.append(held.value)

        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(raised) == 2
        assert all("stopped" not in str(error) for error in raised)
    store.close()
