"""A laptop whose lid is closed while jobs run at a cluster: each is computed once, whatever ends."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.house import House, running
from tests.waiting import wait_for

from .login import LoginNode
from .slurm import Slurm, user_name

pytestmark = pytest.mark.endurance  # pilots must come through Slurm, and a night takes two minutes

HEARTBEAT = 30.0
"""The time-out of silent pilots in s, instead of two hours."""
NIGHT = 2 * HEARTBEAT

FEDERATION = """
name: laptop
sites:
  - {{ name: home, nucleus: true }}
  - {{ name: cluster }}
storages:
  - {{ name: home-disk, site: home, url: "file://{place}/disk" }}
  - name: cluster-disk
    site: cluster
    url: "sftp://cluster{place}/cluster"
    options: {{ ssh_config: {login}/config, known_hosts: {login}/known_hosts }}
queues:
  - name: cluster-main
    site: cluster
    storage: cluster-disk
    max_walltime: 3600
    computing_element:
      kind: slurm
      max_pilots: 2
      pilot_slots: 2
      pilot_walltime: 3600
      options:
        spool: "{place}/spool"
        directory: "{place}/work"
        partition: main
        ssh: cluster
        ssh_config: {login}/config
        tunnel: true
        relay_host: 127.0.0.1
links:
  - {{ source: cluster, destination: home, closeness: 2 }}
brokerage: {{ storage_min_free: 0 }}
timeouts: {{ heartbeat: {heartbeat} }}
loops: {{ period: 0.5, heartbeat: 1, pilot_idle: 2 }}
"""

TASK: dict[str, Any] = {
    "name": "night",
    "parameters": {"number": [1, 2, 3, 4]},
    "command": ["sh", "-c", 'sleep 2; echo "result of $PILOTAGE_JOB" > out.txt'],
    "outputs": ["out.txt"],
    "queues": ["cluster-main"],
    "nucleus": "home",
    "walltime": 10,
    "scouts": 0,
}


@contextmanager
def laptop(place: Path, login: LoginNode, port: int) -> Iterator[House]:
    """A laptop, and a cluster that it reaches by SSH alone."""
    text = FEDERATION.format(place=place, login=login.place, heartbeat=HEARTBEAT)
    with running(place, port, text, "disk", "cluster", "spool", "work") as house:
        yield house


def begun(house: House) -> int:
    """Submit the task, and wait until its payloads run."""
    task: int = house.call("POST", "/tasks", {"tasks": [TASK]})["tasks"][0]["id"]
    wait_for(lambda: house.call("GET", f"/tasks/{task}")["jobs"].get("running") == 4, "its payloads run")
    return task


def check(house: House, task: int, place: Path) -> None:
    """Each job ended well at its first attempt, with its output; nothing is left at the cluster."""
    wait_for(lambda: house.call("GET", f"/tasks/{task}")["state"] in ("finished", "failed"), "its end", 120)
    jobs = house.call("GET", f"/tasks/{task}/jobs")["jobs"]
    assert [(job["state"], job["attempt"]) for job in jobs] == [("finished", 1)] * 4
    outputs = [path.read_text() for path in (place / "disk").rglob("out.txt")]
    assert sorted(outputs) == sorted(f"result of {job['id']}\n" for job in jobs)
    wait_for(lambda: not [*place.glob("spool/*/left/*/*")], "the spool is empty")


def test_pilots_that_live_keep_results_until_the_server_returns(
    slurm: Slurm, login: LoginNode, tmp_path: Path, free_port: int
) -> None:
    with laptop(tmp_path, login, free_port) as house:
        task = begun(house)
        house.running["all"].kill()
        house.running["all"].wait()
        time.sleep(NIGHT)
        assert slurm.call("squeue", "-h"), "the pilots live"
        house.start("all")
        check(house, task, tmp_path)


def test_pilots_that_end_leave_results_in_the_spool(
    slurm: Slurm, login: LoginNode, tmp_path: Path, free_port: int
) -> None:
    """The laptop sleeps, so connections stand, and their batch system ends the pilots meanwhile."""
    with laptop(tmp_path, login, free_port) as house:
        task = begun(house)
        os.killpg(house.running["all"].pid, signal.SIGSTOP)
        time.sleep(NIGHT)
        slurm.call("scancel", "--user", user_name(), "--batch", "--signal=TERM")
        wait_for(lambda: not slurm.call("squeue", "-h"), "the pilots end")
        manifests = [*tmp_path.glob("spool/*/left/*/*/manifest")]
        assert len(manifests) == 4
        assert not [*tmp_path.glob("spool/*/tokens/*")]
        os.killpg(house.running["all"].pid, signal.SIGCONT)
        check(house, task, tmp_path)
