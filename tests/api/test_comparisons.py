"""Files are compared with descriptions of them: by their bytes, and only those that the caller may name."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from .conftest import House, federation

ODD = "runs/é #1%.dat"


@pytest.fixture
def file(house: House, tmp_path: Path) -> Path:
    """A file at a storage."""
    house.store.save_federation(federation(tmp_path), "test")
    path = tmp_path / "north" / ODD
    path.parent.mkdir(parents=True)
    path.write_bytes(b"12345")
    return path


def compared(client: TestClient, **fields: Any) -> Any:
    """What differs of the file."""
    described = {"name": ODD, "size": 5, "checksum": "adler32:02f80100", "replicas": ["north-disk"], **fields}
    answer = client.post("/files/compare", json={"files": [described]})
    assert answer.status_code == 200, answer.text
    return answer.json()["differences"]


def test_bytes_decide_whether_a_file_has_changed(alice: TestClient, file: Path) -> None:
    assert compared(alice) == []
    file.write_bytes(b"54321")
    (changed,) = compared(alice)
    assert (changed["at"], changed["kind"], changed["size"]) == (0, "changed", 5)
    assert changed["checksum"].startswith("adler32:")
    assert changed["checksum"] != "adler32:02f80100"
    assert compared(alice, size=changed["size"], checksum=changed["checksum"]) == []
    file.unlink()
    assert [found["kind"] for found in compared(alice)] == ["gone"]


def test_a_storage_that_cannot_be_read_says_nothing_of_the_file(
    alice: TestClient, file: Path, monkeypatch: pytest.MonkeyPatch, house: House
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(house.runtime.deliveries, "scan", refuse)
    (found,) = compared(alice)
    assert (found["kind"], found["text"]) == ("unread", "it cannot be read at north-disk: no route to host")
    assert file.exists()


def test_files_of_others_are_not_looked_at(alice: TestClient, file: Path) -> None:
    for described in (
        {"name": "x", "size": 1, "scope": "user.bob~atlas"},
        {"name": "tasks/small/77/1/x", "size": 1},
    ):
        answer = alice.post("/files/compare", json={"files": [described]})
        assert (answer.status_code, answer.json()["detail"][0]["field"][:5]) == (422, "files")
    assert file.exists()
