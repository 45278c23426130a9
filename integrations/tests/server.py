"""A real Pilotage server on loopback, with a queue on this machine, in processes of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from pilotage.client import Client

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0

Value = TypeVar("Value")


def wait_for(condition: Callable[[], Value], what: str, seconds: float = PATIENCE) -> Value:
    """Wait until a condition holds, and return its value. Fails with what did not happen."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"did not happen within {seconds:g} s: {what}"
        time.sleep(0.05)
    return value


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Return whether a program listens at a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class LocalServer:
    """``pilotage up`` of the project's environment, in a folder that its payloads share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.home = folder / "home"
        for made in (self.shared, self.home, folder / "pilots", folder / "storage"):
            made.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None
        (self.home / "federation.yaml").write_text(json.dumps(self.federation()))

    def federation(self) -> dict[str, object]:
        """Return what the server is started with."""
        software = [sys.prefix, sys.base_prefix, str(ROOT / "src"), str(ROOT / "integrations")]
        element = {
            "kind": "process",
            "max_pilots": 2,
            "pilot_slots": 3,
            "writable_paths": [str(self.shared)],
            "readable_paths": sorted({path for path in software if not path.startswith("/usr")}),
            "options": {"directory": str(self.folder / "pilots")},
        }
        queue = {
            "name": "local-cores",
            "site": "local",
            "storage": "local-disk",
            "cores": 0,
            "max_memory": 4000,
        }
        return {
            "name": "integrations",
            "director": {"policy": "balanced", "period": 1},
            # A pilot that is killed counts as lost after 2.5 times as long.
            "loops": {"heartbeat": 4},
            "sites": [{"name": "local", "nucleus": True}],
            "storages": [
                {
                    "name": "local-disk",
                    "site": "local",
                    "url": f"file://{self.folder}/storage",
                    "storage_min_free": 0.1,
                }
            ],
            "queues": [
                queue | {"computing_element": element},
                {**queue, "name": "closed-cores", "status": "draining"},
            ],
        }

    @property
    def environment(self) -> dict[str, str]:
        """The variables of who uses it. Snakemake's cache is where payloads may write."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PILOTAGE_")}
        cache = {"XDG_CACHE_HOME": str(self.shared / "cache")}
        return {**kept, **cache, "PILOTAGE_HOME": str(self.home), "PILOTAGE_URL": self.url}

    def start(self) -> None:
        """Start it, and wait until it answers."""
        python = os.environ.get("PILOTAGE_PYTHON", str(ROOT / ".venv" / "bin" / "python"))
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [python, "-m", "pilotage.cli", "up"],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        wait_for(self._answers, f"the server runs, see {self.folder / 'log'}")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-3000:]
        return (self.home / "token").exists() and answers(int(self.url.rpartition(":")[2]))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)

    def stop_pilots(self, number: int = signal.SIGTERM) -> None:
        """End the pilots, which outlive the server, by a signal."""
        mark = f"--directory={self.folder / 'pilots'}"
        for process in psutil.process_iter(["cmdline"]):
            if any(argument.startswith(mark) for argument in process.info["cmdline"] or ()):
                process.send_signal(number)

    def client(self) -> Client:
        """Return a client of it, as its operator."""
        return Client(url=self.url, home=str(self.home))
