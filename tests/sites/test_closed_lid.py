"""A laptop whose lid is closed while jobs run at a cluster: each is computed once, whatever ends."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.house import House, running
from tests.waiting import PATIENCE, wait_for

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

ONE_MACHINE = """
name: laptop
sites: [{{ name: home, nucleus: true }}]
storages: [{{ name: home-disk, site: home, url: "file://{place}/disk" }}]
queues:
  - name: home-queue
    site: home
    storage: home-disk
    computing_element:
      {{ kind: process, max_pilots: 2, pilot_slots: 2, options: {{ directory: "{place}/work" }} }}
brokerage: {{ storage_min_free: 0 }}
timeouts: {{ heartbeat: {heartbeat} }}
loops: {{ period: 0.5, heartbeat: 1, pilot_idle: 2 }}
"""

TASK: dict[str, Any] = {
    "name": "night",
    "parameters": {"number": [1, 2, 3, 4]},
    "command": ["sh", "-c", 'sleep 2; echo "result of $PILOTAGE_JOB" | tee out.txt'],
    "outputs": ["out.txt"],
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


def begun(house: House, queue: str = "cluster-main") -> int:
    """Submit the task, and wait until its payloads run."""
    task: int = house.call("POST", "/tasks", {"tasks": [{**TASK, "queues": [queue]}]})["tasks"][0]["id"]
    wait_for(lambda: house.call("GET", f"/tasks/{task}")["jobs"].get("running") == 4, "its payloads run")
    return task


def check(house: House, task: int, place: Path, others: int = 0) -> None:
    """Each job ended well at its first attempt, with its output; nothing is left at the cluster."""
    wait_for(lambda: house.call("GET", f"/tasks/{task}")["state"] in ("finished", "failed"), "its end", 120)
    jobs = house.call("GET", f"/tasks/{task}/jobs")["jobs"]
    assert [(job["state"], job["attempt"]) for job in jobs] == [("finished", 1)] * 4
    outputs = [path.read_text() for path in (place / "disk").rglob("out.txt")]
    assert {f"result of {job['id']}\n" for job in jobs} <= {*outputs}
    assert len(outputs) <= 4 + others
    wait_for(lambda: not [*place.glob("**/left/*/*")], "the spool is empty")
    assert all("result" in house.command("logs", f"job:{job['id']}") for job in jobs)


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


def test_the_way_to_the_cluster_is_away_and_the_server_is_not(
    slurm: Slurm, login: LoginNode, tmp_path: Path, free_port: int
) -> None:
    """A laptop without a network: pilots cannot call, and the server sees no batch system."""
    with laptop(tmp_path, login, free_port) as house:
        task = begun(house)
        login.kill()
        try:
            time.sleep(NIGHT)
        finally:
            login.start()
        assert slurm.call("squeue", "-h"), "the pilots live"
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


def test_a_machine_that_starts_anew_keeps_what_its_own_pilots_made(tmp_path: Path, free_port: int) -> None:
    """Its server and its pilots end together, once the payloads have ended."""
    text = ONE_MACHINE.format(place=tmp_path, heartbeat=HEARTBEAT)
    with running(tmp_path, free_port, text, "disk", "work") as house:
        task = ended_together(house, tmp_path)
        house.start("all")
        check(house, task, tmp_path)


def test_the_next_pilot_delivers_what_the_server_does_not_see(tmp_path: Path, free_port: int) -> None:
    text = ONE_MACHINE.format(place=tmp_path, heartbeat=300)
    # An end without results counts after 2.5 heartbeats.
    text = text.replace("heartbeat: 1,", "heartbeat: 40,")
    with running(tmp_path, free_port, text, "disk", "work") as house:
        task = ended_together(house, tmp_path)
        for reference in tmp_path.glob("work/*/process"):
            reference.unlink()
        house.federation.write_text(text.replace("max_pilots: 2", "max_pilots: 4"))
        house.start("all")
        house.call("POST", "/tasks", {"tasks": [{**TASK, "parameters": {"number": [5]}}]})
        check(house, task, tmp_path, others=1)
        assert "delivers the results" in house.last_words()


def ended_together(house: House, place: Path) -> int:
    """End the server, and then its pilots, once all payloads of a task have ended."""
    task = begun(house, "home-queue")
    house.running["all"].kill()
    house.running["all"].wait()
    logs = [*place.glob("work/*/agent.log")]
    wait_for(lambda: sum(log.read_text().count(": done") for log in logs) == 4, "the payloads end")
    agents = house.agents()
    for agent in agents:
        agent.terminate()
    psutil.wait_procs(agents, PATIENCE)
    assert len([*place.glob("work/left/*/*/manifest")]) == 4
    return task
