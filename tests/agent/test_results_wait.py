"""What payloads made waits while the server is away: nothing is computed twice."""

import asyncio
import errno
import hashlib
import os
import shutil
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.process.local_spool import LocalSpool
from pilotage.agent.client import MOST_ASKED_FOR, Pause, PilotClient, UnreachableError
from pilotage.agent.files import courier
from pilotage.agent.files.courier import _attempt_folders
from pilotage.agent.files.leaving import leave
from pilotage.agent.files.spool_wire import LeftResults, seal
from pilotage.agent.parsing import parse
from pilotage.agent.payload.attempt import AttemptFailedError
from pilotage.agent.payload.trees import entries
from pilotage.agent.wire import Report
from tests.waiting import wait_for

from .fake_pilot_server import OWN_TOKEN, TOKEN, FakeServer
from .test_agent import Site, order, sh

pytestmark = pytest.mark.slow

ADLER = f"adler32:{zlib.adler32(b'result' + bytes([10])):08x}"
LEASE = 1.5
"""The lease in s of the jobs here."""


@pytest.fixture
def away(tmp_path: Path) -> Site:
    """A site whose server does not run yet."""
    (tmp_path / "storage").mkdir()
    (tmp_path / "shared").mkdir()
    server = FakeServer(lease=LEASE, idle=3)
    with server.serving():
        pass
    return Site(tmp_path, server)


@contextmanager
def server_away_as_the_payload_ends(site: Site, **storage: Any) -> Iterator[None]:
    """Run one payload, and let the server go before its end, for more than twice the lease."""
    go = site.shared / "go"
    command = sh(f"until [ -e {go} ]; do sleep 0.05; done; echo result > out")
    site.server.works = [[site.work(*command, outputs=["out"], **storage)]]
    with site.agent():
        with site.server.serving():
            wait_for(lambda: "running" in site.server.states(), "its payload runs")
        go.touch()
        time.sleep(2.5 * LEASE)
        with site.server.serving():
            wait_for(lambda: "done" in site.server.states(), "its end")
            yield


def test_outputs_that_go_through_the_server_wait_for_it(away: Site) -> None:
    with server_away_as_the_payload_ends(away, storage_url="sftp://host/x", asks=True):
        assert away.server.contents == {"1/1?name=out&source=": b"result\n"}
        assert [(one.name, one.size) for one in away.server.last().outputs] == [("out", 7)]
        assert away.server.states() == ["starting", "running", "done"]


def test_the_end_of_a_payload_waits_beyond_twice_the_lease(away: Site) -> None:
    with server_away_as_the_payload_ends(away):
        assert (away.scratch() / "out").read_text() == "result\n"


@pytest.mark.parametrize(
    ("storage", "files"), [({"storage_url": "sftp://x", "asks": True}, ["out"]), ({}, [])]
)
def test_results_lie_in_the_spool_once_the_pilot_must_end(
    away: Site, storage: dict[str, Any], files: list[str]
) -> None:
    go, spool = away.shared / "go", away.root / "spool" / "left" / "pilot"
    command = sh(f"until [ -e {go} ]; do sleep 0.05; done; echo result > out")
    away.server.works = [[away.work(*command, outputs=["out"], **storage)]]
    with away.agent("--walltime=6", f"--spool={spool}", "--spool-room=1") as agent:
        with away.server.serving():
            wait_for(lambda: "running" in away.server.states(), "its payload runs")
        go.touch()
        assert agent.wait(60) == 0
    seals, _, text = (spool / "1.1/manifest").read_bytes().partition(b"\n")
    assert seal(hashlib.sha256(OWN_TOKEN.encode()).hexdigest(), 1, 1, text) == seals.decode()
    manifest = parse(LeftResults, text)
    assert [(one.name, one.size, one.checksum) for one in manifest.report.outputs] == [("out", 7, ADLER)]
    assert [(file.name, file.size) for file in manifest.files] == [(name, 7) for name in files]
    for number, file in enumerate(manifest.files):
        assert hashlib.sha256((spool / f"1.1/{number}").read_bytes()).hexdigest() == file.sha256
    everything = b"".join(path.read_bytes() for path in away.root.glob("spool/**/*") if path.is_file())
    assert OWN_TOKEN.encode() not in everything
    assert list(away.place.iterdir()) == []


@pytest.mark.parametrize("kind", ["delivers", "forged", "unwanted", "of others"])
def test_another_pilot_delivers_what_its_server_asks_for(away: Site, kind: str) -> None:
    left = away.root / "spool/left/earlier"
    (away.root / "work").mkdir()
    (away.root / "work/out").write_text("result\n")
    leave(left, 1.0, "hash", Report(1, 1, "done"), None, away.root / "work", ("out",))
    if kind == "forged":
        (left / "1.1/0").write_text("Result\n")
    if kind == "unwanted":
        away.server.courier_order = {"unwanted": True}
    elif kind != "of others":
        storage = {"url": f"file://{away.storage}"}
        away.server.courier_order = {"order": order(1), "storage": storage}
    with away.server.serving():
        assert away.run(f"--spool={away.root / 'spool/left/later'}", "--spool-room=1") == 0
    (found,) = away.server.found
    text = f"{found.seal}\n{found.manifest}"
    assert (found.place, seal("hash", 1, 1, found.manifest.encode())) == (
        f"{(away.root / 'spool').name}/left/earlier/1.1",
        found.seal,
    )
    assert (away.scratch() / "out").exists() == (kind == "delivers")
    assert ("/api/v1/pilot/left/1/1" in away.server.calls) == (kind == "delivers")
    if kind in ("forged", "of others"):
        assert (left / "1.1/manifest").read_text() == text
    else:
        assert list(left.glob("*")) == []
    assert list(away.place.iterdir()) == []


def test_a_full_spool_takes_no_results(tmp_path: Path) -> None:
    (tmp_path / "spool/other").mkdir(parents=True)
    (tmp_path / "spool/other/file").write_bytes(bytes(900_000))
    (tmp_path / "out").write_bytes(bytes(200_000))
    report = Report(1, 1, "done")
    with pytest.raises(AttemptFailedError, match="output out: the spool has no room"):
        leave(tmp_path / "spool/mine", 1.0, "hash", report, None, tmp_path, ("out",))
    assert list((tmp_path / "spool/mine").iterdir()) == []
    (tmp_path / "spool/other/file").unlink()
    leave(tmp_path / "spool/mine", 1.0, "hash", report, None, tmp_path, ("out",))


def test_pilots_leave_results_while_others_move_theirs(tmp_path: Path) -> None:
    """Pilots of a site end together and share the spool, and couriers empty it."""
    (tmp_path / "out").write_bytes(b"result")
    ended = threading.Event()

    def move() -> None:
        while not ended.is_set():
            for number in range(20):
                (tmp_path / f"spool/other/.{number}.1/folder").mkdir(parents=True, exist_ok=True)
                (tmp_path / f"spool/other/.{number}.1/file").touch()
                (tmp_path / f"spool/other/.{number}.1").rename(tmp_path / f"spool/other/{number}.1")
            shutil.rmtree(tmp_path / "spool/other")

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for attempt in range(1, 101):
            report = Report(1, attempt, "done")
            leave(tmp_path / "spool/mine", 1.0, "hash", report, None, tmp_path, ("out",))
            LocalSpool(tmp_path / "spool", 1.0, 1.0).pilots()
            assert len([*_attempt_folders(tmp_path / "spool/another")]) >= attempt
    finally:
        ended.set()
        mover.join()


def test_a_folder_that_cannot_be_read_keeps_no_results_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as ``lost+found``, or on NFS a folder that another machine has just removed."""
    (tmp_path / "out").write_bytes(b"result")
    leave(tmp_path / "spool/other", 1.0, "hash", Report(1, 1, "done"), None, tmp_path, ("out",))

    def read(folder: Path) -> list[Path]:
        if folder.name == "lost+found":
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(folder))
        return entries(folder)

    (tmp_path / "spool/lost+found").mkdir()
    monkeypatch.setattr(courier, "entries", read)
    assert [folder.name for folder in _attempt_folders(tmp_path / "spool/mine")] == ["1.1"]
    assert "lost+found cannot be read: " in caplog.text


def test_results_of_an_attempt_that_another_pilot_has_are_dropped(away: Site) -> None:
    go = away.shared / "go"
    command = sh(f"until [ -e {go} ]; do sleep 0.05; done; echo result > out")
    asked = away.work(*command, outputs=["out"], storage_url="sftp://host/x", asks=True)
    away.server.works = [[asked]]
    with away.agent() as agent:
        with away.server.serving():
            wait_for(lambda: "running" in away.server.states(), "its payload runs")
        go.touch()
        time.sleep(LEASE)
        away.server.stop, away.server.status_of = [(1, 1)], {"content": 503}
        with away.server.serving():
            assert agent.wait(60) == 0
    assert "done" not in away.server.states()
    assert list(away.place.iterdir()) == []


def test_a_server_may_ask_for_a_longer_pause() -> None:
    pause = Pause(longest=15)
    assert [pause.failed() <= 15 for _ in range(12)] == [True] * 12
    assert all(20 <= pause.failed(20) <= 30 for _ in range(12))
    assert pause.failed(1e9) <= 1.5 * MOST_ASKED_FOR


def test_an_answer_says_for_how_long_to_wait(away: Site) -> None:
    away.server.status, away.server.retry_after = 503, 40
    with away.server.serving(), pytest.raises(UnreachableError) as failure:
        asyncio.run(PilotClient(away.server.url, TOKEN).enrol())
    assert failure.value.pause == 40
