"""The ways of a pilot to files of a storage that asks: which is taken, and what follows where it fails."""

import io
import os
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from typing import IO, Any

import pytest

from pilotage.agent import wire
from pilotage.agent.client import UnreachableError, answered
from pilotage.agent.files.file_access import StorageRoutes
from pilotage.agent.files.transfer import discard, fetch, store
from pilotage.agent.files.web import Web
from pilotage.agent.payload.attempt import Attempt, AttemptFailedError, InputLostError
from pilotage.agent.wire import JobInput, JobOrder, Work

from .test_storage import WebDav, server

__all__ = ["server"]
HELLO = JobInput("in", 5, "adler32:062c0215")


@dataclass
class House:
    """A server that gives addresses at ``granted`` (empty: none), and hands files on itself at ``own``."""

    granted: str
    own: str
    asked: list[wire.FileRequest] = field(default_factory=list)
    handed_on: int = 0

    def access(self, wanted: wire.FileRequest) -> wire.Access:
        self.asked.append(wanted)
        return (
            wire.Access(f"{self.granted}/{wanted.name}", {"X-Key": "short"})
            if self.granted
            else wire.Access()
        )

    def content(self, wanted: wire.FileRequest, method: str, source: IO[bytes] | None = None) -> HTTPResponse:
        self.handed_on += 1
        return answered(lambda: Web({}).ask(method, f"{self.own}/{wanted.name}", source))


@pytest.fixture
def place(server: Any, tmp_path: Path) -> tuple[House, type[WebDav], Path]:
    url, handler = server
    handler.files["/data/in"] = b"hello"
    return House(f"{url}/data", f"{url}/data"), handler, tmp_path / "copy"


def attempt(url: str) -> Attempt:
    return Attempt(
        Work(task=1, command=("true",), storage_url=url, asks=True), JobOrder(1, 1, ".scratch/h/1.1")
    )


def never() -> bool:
    return False


def brought(house: House, target: Path, url: str = "s3://bucket", ways: StorageRoutes | None = None) -> str:
    fetch(ways or StorageRoutes(house), attempt(url), HELLO, target, never)
    return target.read_text()


def test_a_file_is_read_and_written_at_the_address_that_the_server_gives(place: Any, tmp_path: Path) -> None:
    house, handler, copy = place
    assert brought(house, copy) == "hello"
    (tmp_path / "out").write_bytes(b"four")
    assert store(StorageRoutes(house), attempt("s3://bucket"), "out", tmp_path, never).size == 4
    assert (handler.files["/data/out"], house.handed_on) == (b"four", 0)
    assert house.asked == [wire.FileRequest(1, 1, "in"), wire.FileRequest(1, 1, "out", size=4)]
    assert {key for _, _, key in handler.seen} == {"short"}
    discard(StorageRoutes(house), attempt("s3://bucket"))
    assert "/data/out" in handler.files, "the server deletes what lies there"


def test_without_an_address_the_server_hands_the_file_on(place: Any, tmp_path: Path) -> None:
    house, handler, copy = place
    house.granted = ""
    assert brought(house, copy, "sftp://host/x") == "hello"
    (tmp_path / "out").write_bytes(b"four")
    store(StorageRoutes(house), attempt("sftp://host/x"), "out", tmp_path, never)
    assert (handler.files["/data/out"], house.handed_on) == (b"four", 2)


def test_an_address_that_cannot_be_reached_is_left_out_for_a_while(place: Any) -> None:
    house, _, copy = place
    house.granted = "http://127.0.0.1:1"
    ways = StorageRoutes(house)
    assert brought(house, copy, ways=ways) == brought(house, copy, ways=ways) == "hello"
    assert (len(house.asked), house.handed_on) == (1, 2)


def test_only_the_server_says_that_a_file_is_lost(place: Any) -> None:
    house, handler, copy = place
    house.granted = f"{house.granted}/elsewhere"
    assert brought(house, copy) == "hello"
    del handler.files["/data/in"]
    with pytest.raises(InputLostError, match="not at the queue's storage"):
        brought(house, copy)


@pytest.mark.parametrize(("status", "is_away"), [(503, True), (429, True), (502, True), (403, False)])
def test_a_server_that_is_busy_or_away_says_nothing_about_a_file(
    place: Any, monkeypatch: pytest.MonkeyPatch, status: int, is_away: bool
) -> None:
    house, handler, copy = place
    house.granted = ""
    monkeypatch.setattr(handler, "do_GET", lambda self: self._answer(status, b"8 files are under way"))
    monkeypatch.setattr("pilotage.agent.files.transfer.time.sleep", lambda _: None)
    with pytest.raises(UnreachableError if is_away else AttemptFailedError, match="8 files are under way"):
        brought(house, copy)
    assert house.handed_on == (1 if is_away else 3)
    house.own = "http://127.0.0.1:1"
    with pytest.raises(UnreachableError, match="refused"):
        brought(house, copy)


SCRIPT = """#!/bin/sh
echo "$@" >> {calls}
{does}
"""


@pytest.mark.parametrize(
    ("does", "handed_on"),
    [
        ("printf hello", 0),
        ("echo '[ERROR] permission denied' >&2; exit 54", 1),
        ("printf hel; exec 1>&-; sleep 0.2; exit 51", 1),
    ],
)
def test_the_nodes_program_is_tried_first_and_its_failure_costs_nothing(
    place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, handed_on: int
) -> None:
    house, _, copy = place
    house.granted = ""
    monkeypatch.setattr("pilotage.agent.files.transfer.time.sleep", lambda _: None)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/xrdcp").write_text(SCRIPT.format(calls=tmp_path / "calls", does=does))
    (tmp_path / "bin/xrdcp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert brought(house, copy, "root://host:1094//atlas/") == "hello"
    assert (tmp_path / "calls").read_text() == "-s -f root://host:1094//atlas/in -\n"
    assert house.handed_on == handed_on


def test_what_the_nodes_program_does_not_take_the_server_does(
    place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, handler, _ = place
    house.granted = ""
    (tmp_path / "xrdcp").write_text(SCRIPT.format(calls=tmp_path / "calls", does="exit 51"))
    (tmp_path / "xrdcp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    way = StorageRoutes(house).to(attempt("root://host/"), "out", "")
    way.write(".scratch/h/1.1/out", io.BytesIO(b"x" * 1_000_000))
    assert handler.files["/data/out"] == b"x" * 1_000_000
    assert (tmp_path / "calls").read_text() == "-s -f -p - root://host//.scratch/h/1.1/out\n"


GFAL_COPY = """for word; do source=$target; target=$word; done
/bin/cat "${source#file://}" > '%s'"""


def test_a_node_without_xrdcp_uses_gfal(place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, _, copy = place
    (tmp_path / "bin").mkdir()
    for name, does in (("gfal-cat", "printf hello"), ("gfal-copy", GFAL_COPY % (tmp_path / "arrived"))):
        (tmp_path / "bin" / name).write_text(SCRIPT.format(calls=tmp_path / "calls", does=does))
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    assert brought(house, copy, "roots://host:1094//atlas") == "hello"
    way = StorageRoutes(house).to(attempt("roots://host:1094//atlas"), "out", "")
    way.write(".scratch/h/1.1/out", io.BytesIO(b"x" * 1_000_000))
    assert (tmp_path / "arrived").read_bytes() == b"x" * 1_000_000
    read, written = (tmp_path / "calls").read_text().splitlines()
    assert read == "--bytes -t 86400 roots://host:1094//atlas/in"
    assert written.startswith("-f -p -t 301 -T 301 file:///")
    assert written.endswith(" roots://host:1094//atlas/.scratch/h/1.1/out")
    assert house.handed_on == 0
