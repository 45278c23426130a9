"""The tutorial of a laptop and a Slurm cluster, word for word: only the host's name is another."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.pages import PAGES, commands, files, ran
from tests.waiting import wait_for

from .login import LoginNode
from .slurm import Slurm

pytestmark = pytest.mark.endurance  # two pilots must come through Slurm

STORAGE = re.compile(r"^  - name: cluster-disk\n(?: {4}.*\n)+", re.MULTILINE)


def test_a_laptop_runs_jobs_at_a_cluster(
    slurm: Slurm, login: LoginNode, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slurm.slots
    home = tmp_path / "home"
    for name, value in (("HOME", str(home)), ("PILOTAGE_URL", f"http://127.0.0.1:{free_port}")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    config, disk = login.place / "config", login.place / "home" / "pilotage"
    text = (PAGES / "slurm.md").read_text()
    storage = STORAGE.search(text)
    assert storage
    asked = storage[0].replace("me@login.example.org/home/me/pilotage", f"cluster{disk}")
    asked += f"    options: {{ ssh_config: {config}, known_hosts: {login.place}/known_hosts }}\n"
    for name, content in files(text).items():
        (tmp_path / name).write_text(content)
    host = f"cluster --ssh-config {config}"
    todo = [command.replace("me@login.example.org", host) for command in commands(text)]
    begun = todo.index("pilotage up")
    federation = home / ".pilotage" / "federation.yaml"
    for command in todo[:begun]:
        if "federation check" in command:
            federation.write_text(_here(STORAGE.sub(lambda _: asked, federation.read_text())))
        ran([command])
    with subprocess.Popen(["pilotage", "up"]) as server:
        try:
            wait_for((home / ".pilotage" / "token").exists, "the server runs")
            shown = ran(todo[begun + 1 :])
        finally:
            server.terminate()
    assert "called from" in shown["pilotage queues test cluster-main"]
    said = sorted(path.read_text().split(" on ")[0] for path in (tmp_path / "results").rglob("hello.txt"))
    assert said == [f"job {number}" for number in range(1, 7)]
    sent = [line for line in shown["pilotage pilots"].splitlines() if "cluster-main" in line]
    assert len(sent) < 6, "six jobs do not queue six times"


def _here(text: str) -> str:
    """Let the relay listen on the loopback, where the bed's nodes are, and need no room on the disk."""
    return text.replace("tunnel: true", "tunnel: true\n        relay_host: 127.0.0.1") + (
        "brokerage: { storage_min_free: 0 }\nloops: { period: 0.5 }\n"
    )
