"""Scans, reads and writes in processes of their own: one that hangs is ended, and others go on."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import psutil
import pytest

from pilotage.adapters.movers.processes import call_processes, processes
from pilotage.adapters.movers.processes.call_records import CallOrder
from pilotage.adapters.movers.processes.processes import WorkerProcesses
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.records.federation import Storage
from pilotage.ports.moving import Readable, ScanLimits, StorageError, WrongPatternError
from tests.waiting import has_ended, wait_for

pytestmark = pytest.mark.slow

CONTENT = os.urandom(3_000_000)


def everything(stream: Readable) -> bytes:
    return b"".join(iter(lambda: stream.read(70_001), b""))


@pytest.fixture
def mover(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcesses]:
    monkeypatch.setattr(processes, "SCAN_GRACE", 0.5)
    made = WorkerProcesses("streaming", Streaming(lambda: None), lambda: None)
    yield made
    made.close()
    assert made._calls.pids == []


@pytest.fixture
def good(tmp_path: Path) -> Storage:
    (tmp_path / "file").write_bytes(CONTENT)
    return Storage(name="good", site="a", url=f"file://{tmp_path}")


@pytest.fixture
def hanging() -> Iterator[Storage]:
    """A web server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Storage(name="hanging", site="a", url=f"http://127.0.0.1:{listening.getsockname()[1]}")


def test_files_are_listed_read_and_written_by_one_process_after_the_other(
    mover: WorkerProcesses, good: Storage, tmp_path: Path
) -> None:
    assert [(one.name, one.size) for one in mover.scan(good, "*")] == [("file", len(CONTENT))]
    with mover.open(good, "file") as stream:
        assert everything(stream) == CONTENT
    assert mover.store(good, "below/other", BytesIO(CONTENT), len(CONTENT)).size == len(CONTENT)
    assert (tmp_path / "below" / "other").read_bytes() == CONTENT
    assert len(mover._calls.pids) == 1


def test_errors_are_what_they_were(mover: WorkerProcesses, good: Storage, tmp_path: Path) -> None:
    with pytest.raises(WrongPatternError, match=r"'\.\./x' is not a pattern below storage good"):
        mover.scan(good, "../x")
    with pytest.raises(StorageError, match="neither below"):
        mover.remove(good, "file")
    with pytest.raises(StorageError) as error, mover.open(good, "missing"):
        pass
    assert isinstance(error.value.__cause__, FileNotFoundError)
    with pytest.raises(StorageError, match="must have 10"):
        mover.store(good, "short", BytesIO(b"123"), 10)
    with pytest.raises(StorageError, match="must have 2"):
        mover.store(good, "long", BytesIO(CONTENT), 2)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert len(mover._calls.pids) == 1


def test_a_writer_whose_bytes_break_off_leaves_nothing(
    mover: WorkerProcesses, good: Storage, tmp_path: Path
) -> None:
    class Gone:
        def read(self, _: int, /) -> bytes:
            raise StorageError("the pilot went away")

    with pytest.raises(StorageError, match="the pilot went away"):
        mover.store(good, "new", Gone(), 10)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_storage_that_hangs_is_given_up_with_its_process_and_others_go_on(
    mover: WorkerProcesses, good: Storage, hanging: Storage
) -> None:
    limits = ScanLimits(seconds=1.0)
    with ThreadPoolExecutor(3) as pool:
        dead = [pool.submit(mover.scan, hanging, "*", limits) for _ in range(3)]
        assert [one.name for one in mover.scan(good, "*")] == ["file"]
        for scan in dead:
            with pytest.raises(TimeoutError, match=r"no answer within 1\.5 s"):
                scan.result()
    wait_for(lambda: len(mover._calls.pids) == 1, "one process is left")
    assert [one.name for one in mover.scan(good, "*")] == ["file"]


def test_processes_that_cannot_be_ended_do_not_pile_up(
    mover: WorkerProcesses, hanging: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those whose call waits in the kernel, for a disk that is gone."""
    monkeypatch.setattr(call_processes, "MOST_ENDING", 1)
    with monkeypatch.context() as unkillable:
        unkillable.setattr(call_processes.CallProcess, "kill", lambda _: None)
        with pytest.raises(TimeoutError):
            mover.scan(hanging, "*", ScanLimits(seconds=0.1))
        with pytest.raises(StorageError, match="1 processes hang in storages and cannot be ended"):
            mover.scan(hanging, "*", ScanLimits(seconds=0.1))
    (ending,) = mover._calls._ending
    ending.kill()


def test_a_process_that_stops_in_the_middle_of_a_file_is_given_up(
    mover: WorkerProcesses, good: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    mover.scan(good, "*")  # it has started: only its own silence counts
    monkeypatch.setattr(call_processes, "SILENCE", 4.0)
    with mover.open(good, "file") as stream:
        assert stream.read(1) == CONTENT[:1]
        os.kill(mover._calls.pids[0], signal.SIGSTOP)
        with pytest.raises(TimeoutError, match="no answer within 4 s"):
            everything(stream)
    wait_for(lambda: not mover._calls.pids, "the end of idle processes")


def test_a_process_that_dies_tells_how_and_the_next_call_has_another(
    mover: WorkerProcesses, good: Storage
) -> None:
    with mover.open(good, "file") as stream:
        os.kill(mover._calls.pids[0], signal.SIGKILL)
        with pytest.raises(StorageError, match="the worker process ended by SIGKILL"):
            everything(stream)
    assert len(mover.scan(good, "*")) == 1
    os.kill(mover._calls.pids[0], signal.SIGKILL)  # while it is free
    assert len(mover.scan(good, "*")) == 1


def test_a_file_that_is_not_read_to_its_end_does_not_disturb_the_next(
    mover: WorkerProcesses, good: Storage
) -> None:
    with mover.open(good, "file") as stream:
        stream.read(1)
    with mover.open(good, "file") as stream:
        assert everything(stream) == CONTENT


def test_more_calls_than_there_may_be_processes_wait(
    mover: WorkerProcesses, good: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover._calls, "_room", threading.BoundedSemaphore(1))
    with mover.open(good, "file"), pytest.raises(TimeoutError, match="calls are under way"):
        mover.scan(good, "*", ScanLimits(seconds=0.1))


def test_a_process_ends_with_its_server_also_while_its_storage_hangs(
    mover: WorkerProcesses, hanging: Storage
) -> None:
    process = mover._calls._handed(CallOrder("scan", hanging, ("*", ScanLimits())), 60)
    seen = psutil.Process(process.pid)
    process.connection.close()
    wait_for(lambda: has_ended(seen), "its end")
    mover._calls._put_back(process)


def test_a_process_that_ended_is_waited_for_without_another_call(
    mover: WorkerProcesses, good: Storage
) -> None:
    assert mover.scan(good, "*")
    (pid,) = mover._calls.pids
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid), "the end of the process, and of its entry")
    wait_for(lambda: not mover._calls._processes, "its connection's end")
    with mover.open(good, "file") as stream:
        (pid,) = mover._calls.pids
        assert stream.read(1) == CONTENT[:1]
    wait_for(lambda: not psutil.pid_exists(pid), "the end of one that was not read to its end")
