"""A server that is frozen while it writes, alone or beside others, holds these up for seconds only."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from pilotage.model.records.servers import ServerProcess
from pilotage.store import Store
from pilotage.store.servers import iterations
from tests.waiting import PATIENCE

FROZEN = """
import sys, time
from pilotage.model.records.servers import ServerProcess
from pilotage.store import Store
from pilotage.store.database import engine
from pilotage.store.servers import iterations
engine.WRITER_SILENCE = 2.0
store = Store.open(sys.argv[1], server="frozen")
tries = []
def work(connection):
    tries.append(1)
    iterations.note(connection, "frozen", 1.0 * len(tries))
    if len(tries) == 1:
        print("holding", flush=True)
        time.sleep(5)
store.database.write(work, alone=sys.argv[2] == "alone")
print("done", len(tries), flush=True)
store.close()
"""


@contextmanager
def frozen(url: str, how: str, silence: float) -> Iterator[Store]:
    """Freeze a server that holds rows within the block; then it wakes, and does its work once more."""
    script = FROZEN.replace("WRITER_SILENCE = 2.0", f"WRITER_SILENCE = {silence}")
    with closing(Store.open(url)) as store:
        store.database.write(lambda connection: iterations.note(connection, "frozen", 0.0))
        command = [sys.executable, "-c", script, url, how]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                assert process.stdout.readline() == "holding\n"
                os.kill(process.pid, signal.SIGSTOP)
                yield store
                os.kill(process.pid, signal.SIGCONT)
                assert process.stdout.readline() == "done 2\n", "its first transaction never happened"
                process.wait(PATIENCE)
            finally:
                process.kill()


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("how", ["alone", "beside"])
def test_the_others_go_on_and_the_frozen_one_recovers_when_it_is_woken(postgresql_url: str, how: str) -> None:
    """Whoever writes beside others holds the rows that it changed. It sleeps until this writer is through."""
    with frozen(postgresql_url, how, silence=2.0) as store:
        store.database.write(lambda connection: iterations.note(connection, "frozen", 5.0))


@pytest.mark.slow
@pytest.mark.postgresql
def test_what_a_frozen_server_holds_is_free_once_others_cut_it_off(postgresql_url: str) -> None:
    """It need not be silent for as long as PostgreSQL waits."""
    with frozen(postgresql_url, "alone", silence=600.0) as store:
        assert store.servers.cut_off("another") == 0
        assert store.servers.cut_off("frozen") > 0
        store.database.write(lambda connection: iterations.note(connection, "frozen", 5.0))


@pytest.mark.postgresql
def test_every_connection_notices_that_the_other_end_has_vanished(postgresql_url: str) -> None:
    store = Store.open(postgresql_url)
    try:
        ((lock, idle),) = store.database.run(
            "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')",
            {},
        )
        assert (lock, idle) == ("30s", "5min")
    finally:
        store.close()


@pytest.mark.postgresql
def test_a_silent_server_is_found_while_it_is_the_only_writer(postgresql_url: str) -> None:
    """Whoever finds it must not wait for its place: only then are its sessions ended."""
    with closing(Store.open(postgresql_url)) as store, closing(Store.open(postgresql_url)) as silent:
        process = ServerProcess(
            name="silent", version="1", host="here", process="1", url="", loops=(), started=0.0, seen=0.0
        )
        store.servers.join(process)
        (seen,) = store.servers.named(["silent"])
        found = silent.database.write(lambda _: store.servers.found_silent(seen, 9.0, 3.0))
    assert found
