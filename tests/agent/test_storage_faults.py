"""The failures of a pilot's files that speak against their storage, and those that do not (F4)."""

import errno
from pathlib import Path
from typing import Any

import pytest

from pilotage.agent.files.file_access import StorageRoutes
from pilotage.agent.files.transfer import fetch, store
from pilotage.agent.payload.attempt import AttemptFailedError, StorageFailedError
from pilotage.agent.wire import JobInput, StorageFault

from .test_storage import WebDav, attempt, server
from .test_ways import House
from .test_ways import attempt as asking

__all__ = ["server"]
IN = JobInput("in", 5)
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotage.agent.files.transfer.time.sleep", lambda _: None)


def fault_of(work: Any, target: Path, ways: StorageRoutes | None = None) -> StorageFault | None:
    """Read an input that cannot be read; return the fault of its storage, none where it has none."""
    with pytest.raises(AttemptFailedError) as failure:
        fetch(ways or StorageRoutes(None), work, IN, target, lambda: False)  # type: ignore[arg-type]
    return failure.value.fault if isinstance(failure.value, StorageFailedError) else None


def answering(handler: type[WebDav], status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("do_GET", "do_PUT"):
        monkeypatch.setattr(handler, method, lambda self: self._answer(status, **JSON))


@pytest.mark.parametrize(("status", "counts"), [(500, True), (503, True), (403, False), (401, False)])
def test_f4_a_server_that_fails_is_to_blame_one_that_refuses_a_file_is_not(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, counts: bool
) -> None:
    url, handler = server
    answering(handler, status, monkeypatch)
    assert (fault_of(attempt(url), tmp_path / "in") == StorageFault("in")) is counts


def test_f4_a_storage_that_cannot_be_reached_is_to_blame(tmp_path: Path) -> None:
    assert fault_of(attempt("http://127.0.0.1:1"), tmp_path / "in") == StorageFault("in")


def test_f4_an_answer_that_breaks_off_is_the_storages_fault(server: Any, tmp_path: Path) -> None:
    url, handler = server
    handler.files["/data/in"] = b"hello"
    handler.cut = True
    assert fault_of(attempt(f"{url}/data"), tmp_path / "in") == StorageFault("in")


def test_f4_what_is_not_there_or_not_as_it_must_be_is_not(server: Any, tmp_path: Path) -> None:
    url, handler = server
    assert fault_of(attempt(f"{url}/data"), tmp_path / "in") is None
    handler.files["/data/in"] = b"more than that"
    assert fault_of(attempt(f"{url}/data"), tmp_path / "in") is None
    (tmp_path / "disk" / "in").mkdir(parents=True)
    assert fault_of(attempt(str(tmp_path / "disk")), tmp_path / "copy") is None


def test_f4_the_disk_of_the_pilot_is_no_storages_fault(server: Any, tmp_path: Path) -> None:
    url, handler = server
    handler.files["/data/in"] = b"hello"
    (tmp_path / "in").mkdir()
    assert fault_of(attempt(f"{url}/data"), tmp_path / "in") is None
    with pytest.raises(AttemptFailedError, match=r"on the disk of the pilot: .*Is a directory"):
        fetch(StorageRoutes(None), attempt(f"{url}/data"), IN, tmp_path / "in", lambda: False)  # type: ignore[arg-type]


@pytest.mark.parametrize(("status", "counts"), [(502, True), (500, False), (403, False)])
def test_f4_of_a_storage_that_asks_the_server_says_who_is_to_blame(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, counts: bool
) -> None:
    url, handler = server
    answering(handler, status, monkeypatch)
    house = House("", url)
    found = fault_of(asking("sftp://host/x"), tmp_path / "in", StorageRoutes(house))
    assert (found == StorageFault("in")) is counts


@pytest.mark.parametrize(("status", "counts"), [(507, True), (403, False)])
def test_f4_an_output_that_a_storage_does_not_take_is_its_fault(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, counts: bool
) -> None:
    url, handler = server
    answering(handler, status, monkeypatch)
    (tmp_path / "out").write_bytes(b"four")
    with pytest.raises(AttemptFailedError) as failure:
        store(StorageRoutes(None), attempt(url), "out", tmp_path, lambda: False)  # type: ignore[arg-type]
    found = failure.value.fault if isinstance(failure.value, StorageFailedError) else None
    assert (found == StorageFault("out", written=True)) is counts


def test_f4_an_output_that_cannot_be_read_is_not(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    url, _ = server
    (tmp_path / "out").write_bytes(b"four")
    monkeypatch.setattr("pilotage.agent.files.transfer.open_output", lambda *_: _Broken(broken))
    with pytest.raises(AttemptFailedError, match="on the disk of the pilot") as failure:
        store(StorageRoutes(None), attempt(f"{url}/data"), "out", tmp_path, lambda: False)  # type: ignore[arg-type]
    assert not isinstance(failure.value, StorageFailedError)


class _Broken:
    """A file on a disk that cannot be read."""

    def __init__(self, read: Any) -> None:
        self.read = read

    def __enter__(self) -> "_Broken":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def seek(self, *_: int) -> int:
        return 4
