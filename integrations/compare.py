"""Times a workflow of short jobs on a private Slurm: this executor beside ``cluster-generic`` and ``slurm``.

    .venv/bin/python integrations/compare.py 300 cluster-generic pilotage cluster-generic pilotage

All have the same two slots. It needs what ``make test-sites`` and ``make test-integrations`` install; for
``slurm`` also ``snakemake-executor-plugin-slurm``.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "integrations" / "tests")]

from server import LocalServer, free_port  # noqa: E402
from tests.sites.slurm import Slurm  # noqa: E402

SLOTS = 2
PYTHON = ROOT / "build" / "integrations" / "bin" / "python"

WORKFLOW = """\
rule all:
    input: expand("out/{{number}}.txt", number=range({count}))
rule each:
    output: "out/{{number}}.txt"
    resources: mem_mb=600, runtime=10
    shell: "echo {{wildcards.number}} > {{output}}"
"""

EXECUTORS = {
    "cluster-generic": ["--cluster-generic-submit-cmd", "sbatch --parsable --output=/dev/null"],
    "slurm": [
        "--slurm-no-account",
        "--slurm-status-command",
        "squeue",
        "--slurm-init-seconds-before-status-checks",
        "1",
    ],
    "pilotage": [],
}


class SlurmServer(LocalServer):
    """A server whose pilots are batch jobs of that Slurm."""

    def federation(self) -> dict[str, object]:
        """Return the local federation with another computing element."""
        federation = super().federation()
        queue, _ = federation["queues"]  # type: ignore[misc]
        element = queue["computing_element"]
        element |= {"kind": "slurm", "max_pilots": SLOTS, "pilot_slots": 1, "pilot_walltime": 3600}
        element["options"] = {"spool": str(self.folder / "spool"), "partition": "main"}
        element["readable_paths"] += [str(PYTHON.parents[1])]
        return federation


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """Run a Slurm with so many slots."""
    folder.mkdir()
    slurm = Slurm(folder, (free_port(), free_port()), slots=SLOTS)
    slurm.start()
    try:
        yield slurm
    finally:
        slurm.stop()


def with_srun(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """Return an environment in which ``srun`` has this Slurm, also without variables ``SLURM_``."""
    program = folder / "srun"
    real = shutil.which("srun", path=environment["PATH"])
    program.write_text(f'#!/bin/sh\nSLURM_CONF={environment["SLURM_CONF"]} exec {real} "$@"\n')
    program.chmod(0o755)
    return {**environment, "PATH": f"{folder}:{environment['PATH']}"}


def run(executor: str, count: int, server: LocalServer, environment: dict[str, str]) -> dict[str, object]:
    """Run the workflow, and return how long it took."""
    folder = Path(tempfile.mkdtemp(prefix=executor, dir=server.shared))
    (folder / "Snakefile").write_text(WORKFLOW.format(count=count))
    command = [PYTHON, "-m", "snakemake", "--executor", executor, "--jobs", str(count), *EXECUTORS[executor]]
    begun = time.monotonic()
    with (folder / "log").open("wb") as log:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False)
    seconds = time.monotonic() - begun
    if done.returncode:
        sys.stderr.write((folder / "log").read_text()[-3000:])
    outputs = len(list((folder / "out").glob("*.txt")))
    load = round(os.getloadavg()[1], 1)
    result = {"executor": executor, "code": done.returncode, "outputs": outputs}
    return {**result, "seconds": round(seconds, 1), "load": load}


def main() -> None:
    """Compare the executors, one after the other."""
    count = int(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="compare-") as place, slurm(Path(place) / "slurm") as batch:
        environment = with_srun(Path(place), dict(batch.environment))
        os.environ |= environment
        server = SlurmServer(Path(place) / "pilotage")
        server.start()
        try:
            for executor in sys.argv[2:]:
                result = run(executor, count, server, environment | server.environment)
                # Idle pilots would keep the slots.
                batch.clear()
                submissions = len((Path(place) / "slurm" / "jobcomp.txt").read_text().splitlines())
                print(json.dumps({**result, "batch_jobs_so_far": submissions}), flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
