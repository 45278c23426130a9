"""Workflows that the tests run with Snakemake on Pilotage."""

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from server import wait_for

from pilotage.client import Client, Task

MANY = """\
NAMES = [f"{{number}} ä b" for number in range({count})]
rule all:
    input: expand("out/{{name}}.txt", name=NAMES)
rule each:
    output: "out/{{name}}.txt"
    resources: mem_mb=600, runtime=10
    shell:
        "echo '{{wildcards.name}}' | tr -d ' ' >> begun.txt; {command}; "
        "echo '{{wildcards.name}}' > '{{output}}'"
"""

HELD = "while ! test -e go; do sleep 0.1; done"
"""A command that runs until the test lets it end."""


@dataclass
class Workflow:
    """A folder with a Snakefile that Snakemake runs on Pilotage."""

    folder: Path
    environment: dict[str, str]
    module: tuple[str, str] = ("-m", "snakemake")
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    @property
    def log(self) -> str:
        """What all runs of Snakemake wrote."""
        return (self.folder / "snakemake.txt").read_text()

    def start(self, *options: str, executor: str = "pilotage") -> "subprocess.Popen[bytes]":
        """Start Snakemake."""
        command = [sys.executable, *self.module, "--executor", executor, "--jobs", "100", *options]
        with (self.folder / "snakemake.txt").open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

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

    def end(self) -> None:
        """End what a test has left, so that its jobs keep no slot from the next test."""
        (self.folder / "go").touch()
        for process in self.processes:
            process.kill()
            process.wait()


def write(workflow: Workflow, count: int, command: str = "true") -> None:
    """Write a workflow of many jobs of one rule."""
    (workflow.folder / "Snakefile").write_text(MANY.format(count=count, command=command))


def outputs(workflow: Workflow) -> dict[str, str]:
    """Return the content of each output by its name."""
    return {file.stem: file.read_text().strip() for file in (workflow.folder / "out").glob("*.txt")}


def newest(client: Client, count: int) -> list[Task]:
    """Return the newest tasks, whole."""
    return [client.task(task.id) for task in client.tasks(limit=count)]
