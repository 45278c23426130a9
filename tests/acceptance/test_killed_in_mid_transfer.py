"""``kill -9`` of a server or a worker in mid-transfer: nothing half-written is seen, the rest goes on."""

import hashlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from pilotage.demo import service
from tests.waiting import has_ended, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

CONTENT = bytes(range(256)) * 16_000
FILES = 6
FEDERATION = """
name: house
sites: [ {{ name: near, nucleus: true }}, {{ name: far }} ]
storages:
  - {{ name: disk, site: near, url: "file://{place}/disk", storage_min_free: 0 }}
  - {{ name: web, site: far, url: "http://127.0.0.1:{port}/" }}
queues:
  - name: waiting
    site: near
    storage: disk
    num_slots: 10
    computing_element: {{ max_pilots: 1, options: {{ directory: "{place}/pilots" }} }}
links: [ {{ source: far, destination: near, closeness: 1 }} ]
loops: {{ period: 1 }}
"""
ONLY = ("--only", "split,broker,stage")


SMALL = {f"small-{number}": f"{number:09}\n".encode() * 1000 for number in range(40)}
"""Files of 10 kB, which share slots: sixteen are one stream."""
GIVEN = 20
"""Small files that are given before one is held up."""


class Slow(BaseHTTPRequestHandler):
    """Gives the half of a file, and the rest when it may; of small ones it gives some whole at once."""

    go_on = threading.Event()
    asked: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        name = self.path.strip("/")
        self.asked[name] += 1
        content = self._begin()
        half = len(content) // 2
        self.wfile.write(content[:half])
        if name not in SMALL or len(self.asked) > GIVEN:
            self.go_on.wait()
        self.wfile.write(content[half:])

    def do_HEAD(self) -> None:
        self._begin()

    def _begin(self) -> bytes:
        content = SMALL.get(self.path.strip("/"), CONTENT)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return content

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def source() -> Iterator[int]:
    """The port of a slow web server."""
    Slow.go_on.clear()
    Slow.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_port
        Slow.go_on.set()
        server.shutdown()


def files(disk: Path, *, parts: bool) -> list[Path]:
    """What lies in the storage: parts, or files under their names."""
    found = [path for path in disk.rglob("*") if path.is_file()] if disk.exists() else []
    return [path for path in found if path.name.endswith(".part") == parts]


def workers(server: int) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(server).children()
        if "pilotage.adapters.movers.processes.worker" in child.cmdline()
    ]


@pytest.mark.endurance
def test_a_killed_server_leaves_nothing_half_written_and_the_next_one_goes_on(
    tmp_path: Path, source: int, sqlite_url: str
) -> None:
    federation, disk = tmp_path / "federation.yaml", tmp_path / "disk"
    federation.write_text(FEDERATION.format(place=tmp_path, port=source))
    checksum = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    inputs = [
        {"name": f"file-{number}", "size": len(CONTENT), "checksum": checksum, "replicas": ["web"]}
        for number in range(FILES)
    ]
    task = {"name": "waits", "inputs": inputs, "files_per_job": FILES, "command": ["true"], "scouts": 0}
    with service.running(federation, tmp_path / "home", None, sqlite_url, *ONLY) as server:
        server.post("/tasks", {"tasks": [task]})
        wait_for(lambda: len(files(disk, parts=True)) == FILES, "a delivery of each file")
        theirs = workers(server.pid)
        assert theirs
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: all(map(has_ended, theirs)), "their end")
        assert files(disk, parts=False) == []
    Slow.go_on.set()
    with service.running(federation, tmp_path / "home", None, sqlite_url, *ONLY) as server:
        wait_for(lambda: len(files(disk, parts=False)) == FILES, "the arrival of each file")
        assert {path.read_bytes() == CONTENT for path in files(disk, parts=False)} == {True}
        wait_for(lambda: not files(disk, parts=True), "the end of what was half written")
        states = {one["state"] for one in wait_for(lambda: ended(server), "the end of each transfer")}
    assert states == {"done"}


# A server that is killed in the middle of whole files is above.
@pytest.mark.parametrize("victim", [pytest.param("server", marks=pytest.mark.endurance), "worker"])
def test_of_a_bundle_that_is_killed_each_file_is_whole_or_brought_again(
    tmp_path: Path, source: int, sqlite_url: str, victim: str
) -> None:
    federation, disk = tmp_path / "federation.yaml", tmp_path / "disk"
    federation.write_text(FEDERATION.format(place=tmp_path, port=source))
    inputs = [
        {
            "name": name,
            "size": len(content),
            "checksum": f"sha256:{hashlib.sha256(content).hexdigest()}",
            "replicas": ["web"],
        }
        for name, content in SMALL.items()
    ]
    task = {"name": "waits", "inputs": inputs, "files_per_job": 40, "command": ["true"], "scouts": 0}
    with service.running(federation, tmp_path / "home", None, sqlite_url, *ONLY) as server:
        server.post("/tasks", {"tasks": [task]})
        wait_for(lambda: len(Slow.asked) > GIVEN and files(disk, parts=False), "files that are held up")
        theirs = workers(server.pid)
        assert theirs
        for process in [psutil.Process(server.pid)] if victim == "server" else theirs:
            process.kill()
        wait_for(lambda: all(map(has_ended, theirs)), "their end")
        there = files(disk, parts=False)
        assert 0 < len(there) < len(SMALL)
        assert whole(there)
        before = {path.name: path.stat().st_mtime_ns for path in there}
        Slow.go_on.set()
        if victim == "worker":
            all_arrive(server, disk)
    if victim == "server":
        with service.running(federation, tmp_path / "home", None, sqlite_url, *ONLY) as server:
            all_arrive(server, disk)
    # One that was there is looked at, and not brought again; the others are, once or twice each.
    assert {path.name: path.stat().st_mtime_ns for path in there} == before
    assert max(Slow.asked.values()) <= 3


def all_arrive(server: service.DemoServer, disk: Path) -> None:
    """Wait until each small file is there, whole, and each transfer done."""
    wait_for(lambda: len(files(disk, parts=False)) == len(SMALL), "the arrival of each file")
    assert whole(files(disk, parts=False))
    wait_for(lambda: not files(disk, parts=True), "the end of what was half written")
    states = {one["state"] for one in wait_for(lambda: ended(server), "the end of each transfer")}
    assert states == {"done"}


def whole(found: list[Path]) -> bool:
    """Tell whether all of these are as they should be."""
    return all(path.read_bytes() == SMALL[path.name] for path in found)


def ended(server: service.DemoServer) -> Any:
    transfers = server.get("/transfers")["transfers"]
    return transfers if all(one["state"] in ("done", "failed", "cancelled") for one in transfers) else None
