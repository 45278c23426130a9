"""A million files: registered from a manifest, listed, matched by a pattern; the server's memory."""

import os
import subprocess
import sys
import time
from pathlib import Path

from pilotage.demo.service import DemoServer

from . import house

FILES = 1_000_000
PAGE = 10_000
"""Files that one request lists."""


def figures() -> dict[str, float]:
    """``catalogue_1m_KEY``: seconds of each, and MiB of the server at its most."""
    with house.running("sqlite") as server:
        manifest = Path(os.environ.get("TMPDIR", "/tmp")) / f"pilotage-manifest-{os.getpid()}.csv"
        try:
            _write(manifest)
            begun = time.perf_counter()
            _register(server, manifest)
            registered = time.perf_counter() - begun
        finally:
            manifest.unlink(missing_ok=True)
        begun = time.perf_counter()
        if (count := _count(server, "**")) != FILES:
            raise RuntimeError(f"{count} of {FILES} files are listed")
        listed = time.perf_counter() - begun
        begun = time.perf_counter()
        # The pattern begins with no folder: every name is looked at.
        if (count := _count(server, "**/*77.root")) != FILES // 100:
            raise RuntimeError(f"{count} of {FILES // 100} files match")
        matched = time.perf_counter() - begun
        return {
            "catalogue_1m_register_s": registered,
            "catalogue_1m_list_s": listed,
            "catalogue_1m_match_s": matched,
            "catalogue_1m_server_mib": _most_mib(server.pid),
        }


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
