"""``kill -9`` of a server in mid-transfer: nothing half-written is seen, the next one goes on at once."""

import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

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
  - {{ name: disk, site: near, url: "file://{place}/disk" }}
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


class Slow(BaseHTTPRequestHandler):
    """Gives the half of a file, and the rest when it may."""

    go_on = threading.Event()

    def do_GET(self) -> None:
        self._begin()
        half = len(CONTENT) // 2
        self.wfile.write(CONTENT[:half])
        self.go_on.wait()
        self.wfile.write(CONTENT[half:])

    def do_HEAD(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def source() -> Iterator[int]:
    """The port of a slow web server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        Slow.go_on.set()
        server.shutdown()


def files(disk: Path, *, parts: bool) -> list[Path]:
    """What lies in the storage: parts, or files under their names."""
    found = [path for path in disk.rglob("*") if path.is_file()] if disk.exists() else []
    return [path for path in found if path.name.endswith(".part") == parts]


def workers(server: int) -> list[psutil.Process]:
    return [
        child for child in psutil.Process(server).children() if "pilotage.movers.worker" in child.cmdline()
    ]


def test_a_killed_server_leaves_nothing_half_written_and_the_next_one_goes_on(
    tmp_path: Path, source: int
) -> None:
    federation, disk = tmp_path / "federation.yaml", tmp_path / "disk"
    federation.write_text(FEDERATION.format(place=tmp_path, port=source))
    checksum = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    inputs = [
        {"name": f"file-{number}", "size": len(CONTENT), "checksum": checksum, "replicas": ["web"]}
        for number in range(FILES)
    ]
    task = {"name": "waits", "inputs": inputs, "files_per_job": FILES, "command": ["true"], "scouts": 0}
    with service.running(federation, tmp_path / "home", None, None, *ONLY) as server:
        server.post("/tasks", {"tasks": [task]})
        wait_for(lambda: len(files(disk, parts=True)) == FILES, "a delivery of each file")
        theirs = workers(server.pid)
        assert theirs
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: all(map(has_ended, theirs)), "their end")
        assert files(disk, parts=False) == []
    Slow.go_on.set()
    with service.running(federation, tmp_path / "home", None, None, *ONLY) as server:
        wait_for(lambda: len(files(disk, parts=False)) == FILES, "the arrival of each file")
        assert {path.read_bytes() == CONTENT for path in files(disk, parts=False)} == {True}
        wait_for(lambda: not files(disk, parts=True), "the end of what was half written")
        states = {one["state"] for one in wait_for(lambda: ended(server), "the end of each transfer")}
    assert states == {"done"}


def ended(server: service.DemoServer) -> Any:
    transfers = server.get("/transfers")["transfers"]
    return transfers if all(one["state"] in ("done", "failed", "cancelled") for one in transfers) else None
