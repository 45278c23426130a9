"""Files through the whole path: 10,000 small ones from a web server to a storage, by a real server."""

import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.movers.servers import nginx

from pilotage.demo import service

from . import lifecycle

FILES, SIZE = 10_000, 10_000
FILES_PER_JOB = 100
ONLY = ("--only", "split,broker,stage")
"""Loops that run: a pilot would take jobs away before they are counted."""

FEDERATION = """
name: bench
sites: [ {{ name: near, nucleus: true }}, {{ name: far }} ]
storages:
  - {{ name: disk, site: near, url: "file://{place}/disk", storage_min_free: 0 }}
  - {{ name: web, site: far, url: "http://{address}/web" }}
queues:
  - name: waiting
    site: near
    storage: disk
    num_slots: 100
    computing_element: {{ max_pilots: 1, options: {{ directory: "{place}/pilots" }} }}
links: [ {{ source: far, destination: near, closeness: 1 }} ]
"""


def figures() -> dict[str, float]:
    """``small_files_per_s``: from the submission of the task until the last file has arrived."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        inputs = [_input(place, number) for number in range(FILES)]
        with _server(place) as server:
            task = {"name": "small", "inputs": inputs, "files_per_job": FILES_PER_JOB, "scouts": 0}
            begun = time.monotonic()
            server.post("/tasks", {"tasks": [task | {"command": ["true"]}]})
            while lifecycle.counts(server)["activated"] < FILES // FILES_PER_JOB:
                server.check()
                time.sleep(0.1)
            seconds = time.monotonic() - begun
        if sum(path.is_file() for path in (place / "disk").rglob("*")) != FILES:
            raise RuntimeError("not all files are there: this figure would mean nothing")
        return {"small_files_per_s": FILES / seconds}
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _server(place: Path) -> Iterator[service.DemoServer]:
    with nginx(place, place) as address:
        federation = place / "federation.yaml"
        federation.write_text(FEDERATION.format(place=place, address=address))
        with service.running(federation, place / "home", None, None, *ONLY) as server:
            yield server


def _input(place: Path, number: int) -> dict[str, Any]:
    name, content = f"run/{number % 100}/{number}", number.to_bytes(8, "big") * (SIZE // 8)
    path = place / "web" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"name": name, "size": len(content), "checksum": checksum, "replicas": ["web"]}
