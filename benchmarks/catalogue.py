"""A million files: registered, listed, matched by patterns, put into datasets; the server's memory."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pilotage.demo.service import DemoServer

from . import house

FILES = 1_000_000
PAGE = 10_000
"""Files that one request lists."""


def figures(databases: tuple[house.Database, ...] = ("sqlite", "postgresql")) -> dict[str, float]:
    """``catalogue_1m_KEY``, with ``_postgresql`` there: seconds of each, and the most MiB of the server."""
    found: dict[str, float] = {}
    for database in databases:
        suffix = "" if database == "sqlite" else f"_{database}"
        with house.running(database) as server:
            measured = {**_filled(server), **_looked_at(server), **_gathered(server)}
            measured["server_mib"] = _most_mib(server.pid)
        found |= {f"catalogue_1m_{key}{suffix}": value for key, value in measured.items()}
    return found


def _filled(server: DemoServer) -> dict[str, float]:
    manifest = Path(os.environ.get("TMPDIR", "/tmp")) / f"pilotage-manifest-{os.getpid()}.csv"
    try:
        _write(manifest)
        return {"register_s": _seconds(lambda: _register(server, manifest))}
    finally:
        manifest.unlink(missing_ok=True)


def _looked_at(server: DemoServer) -> dict[str, float]:
    """List all; match a pattern without a folder, for which every name is read, and one of 11 folders."""
    return {
        "list_s": _seconds(lambda: _expect(_count(server, "**"), FILES)),
        "match_s": _seconds(lambda: _expect(_count(server, "**/*77.root"), FILES // 100)),
        "match_prefix_s": _seconds(lambda: _expect(_count(server, "runs/77*/**"), 11_000)),
    }


def _gathered(server: DemoServer) -> dict[str, float]:
    """Make a dataset of 90,000 files by a pattern, and a version with one more; name it, and a pattern."""
    task = {
        "name": "reads",
        "command": ["true"],
        "inputs": [{"dataset": "large"}, {"glob": "runs/77/*"}],
        "files_per_job": 1000,
        "scouts": 0,
    }
    define = {"dataset": "large", "match": "runs/1[0-8]?/**"}
    more = {"dataset": "large", "files": ["runs/2/2000.root"], "edit": "add"}
    return {
        "define_s": _seconds(lambda: _expect(server.post("/datasets", define)["files"], 90_000)),
        "next_version_s": _seconds(lambda: _expect(server.post("/datasets", more)["version"], 2)),
        "submit_s": _seconds(lambda: _expect(server.post("/tasks", {"tasks": [task]})["tasks"][0]["id"], 1)),
    }


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _expect(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{found} where {wanted} should be")


def _write(manifest: Path) -> None:
    with manifest.open("w") as lines:
        lines.writelines(f"runs/{n // 1000}/{n}.root,{1000 + n},adler32:{n:08x}\n" for n in range(FILES))


def _register(server: DemoServer, manifest: Path) -> None:
    command = [sys.executable, "-m", "pilotage.cli", "files", "register", str(manifest), "--storage", "disk"]
    environment = {**os.environ, "PILOTAGE_URL": server.url, "PILOTAGE_TOKEN": server.token}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def _count(server: DemoServer, match: str) -> int:
    """Count what a pattern matches, page by page."""
    count, after = 0, ""
    while True:
        page = server.get("/files", match=match, limit=PAGE, after=after)["files"]
        count += len(page)
        if len(page) < PAGE:
            return count
        after = page[-1]["file"]


def _most_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
