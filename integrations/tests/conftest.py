"""One server for all tests of the integrations."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from server import LocalServer, wait_for

from pilotage.client import Client


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server that runs."""
    server = LocalServer(tmp_path_factory.mktemp("pilotage"))
    server.start()
    os.environ |= server.environment
    try:
        yield server
    finally:
        with server.client() as client:
            for task in client.tasks(limit=1000):
                if not task.has_ended:
                    client.cancel(task)
        server.stop()
        server.stop_pilots()


@pytest.fixture
def client(server: LocalServer) -> Iterator[Client]:
    """A client of it."""
    with server.client() as client:
        yield client


@dataclass
class Workflow:
    """A folder with a Snakefile that Snakemake runs on Pilotage."""

    folder: Path
    environment: dict[str, str]
    module: tuple[str, str] = ("-m", "snakemake")

    @property
    def log(self) -> str:
        """What all runs of Snakemake wrote."""
        return (self.folder / "snakemake.txt").read_text()

    def start(self, *options: str, executor: str = "pilotage") -> "subprocess.Popen[bytes]":
        """Start Snakemake."""
        command = [sys.executable, *self.module, "--executor", executor, "--jobs", "100", *options]
        with (self.folder / "snakemake.txt").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)

    def run(self, *options: str, code: int = 0) -> str:
        """Run Snakemake to its end, which must have this exit code. Return what it wrote."""
        process = self.start(*options)
        try:
            assert process.wait(240) == code, self.log[-6000:]
        finally:
            process.kill()
        return self.log

    def begun(self) -> list[str]:
        """Return which jobs have begun, once for each time."""
        file = self.folder / "begun.txt"
        return sorted(file.read_text().split()) if file.exists() else []

    def wait_for(self, text: str) -> None:
        """Wait until Snakemake has written a text."""
        wait_for(lambda: text in self.log, f"{text!r} in {self.log[-3000:]}")

    def let_go(self, process: "subprocess.Popen[bytes]") -> str:
        """Let jobs end that wait for the file ``go``, and Snakemake with them. Return what it wrote."""
        (self.folder / "go").touch()
        assert process.wait(120) == 0, self.log
        return self.log

    def interrupt(self, process: "subprocess.Popen[bytes]") -> None:
        """Press Ctrl-C."""
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0, self.log


@pytest.fixture
def workflow(server: LocalServer, request: pytest.FixtureRequest) -> Workflow:
    """A folder on the shared disk: its name has blanks and umlauts."""
    folder = server.shared / f"Größe {request.node.name}"
    folder.mkdir()
    return Workflow(folder, server.environment)
