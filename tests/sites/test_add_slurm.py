"""A real cluster is looked at, and written into a federation's file."""

import json
import subprocess
import sys
from pathlib import Path

from .login import LoginNode
from .slurm import Slurm


def pilotage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pilotage.cli", "federation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_cluster_is_added_from_here_and_over_ssh(slurm: Slurm, login: LoginNode, tmp_path: Path) -> None:
    file = tmp_path / "federation.yaml"
    file.write_text("# mine\nname: mine\nsites:\n  - name: home   # here\n")
    here = pilotage("add", "slurm", "--file", str(file))
    assert here.returncode == 0, here.stderr
    assert "2 queues" in here.stdout
    assert "max_pilots" in here.stderr
    again = pilotage("add", "slurm", "--file", str(file))
    assert (again.returncode, again.stdout) == (2, "")
    assert "give another name with --site" in again.stderr
    remote = pilotage(
        "add", "slurm", "cluster", "--file", str(file), "--site", "far", "--tunnel", "--json",
        "--ssh-config", login.options["ssh_config"],
    )  # fmt: skip
    assert remote.returncode == 0, remote.stderr
    told = json.loads(remote.stdout)
    assert [queue["name"] for queue in told["queues"]] == ["far-main", "far-urgent"]
    options = told["queues"][1]["computing_element"]["options"]
    assert (options["ssh"], options["tunnel"], options["partition"]) == ("cluster", True, "urgent")
    assert told["queues"][1]["max_walltime"] == 3600
    checked = pilotage("check", str(file))
    # Warnings of what would wait depend on this machine's disk.
    assert checked.returncode == 0, checked.stderr
    text = file.read_text()
    assert text.startswith(
        "# mine\nname: mine\nsites:\n  - name: home   # here\n  - name: bed\n  - name: far\n"
    )
