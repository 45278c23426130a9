"""One task over a local site, a Slurm behind SSH and an ARC site, while each is killed and started again."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.house import House, running
from tests.waiting import wait_for

from .arc import ArcServer
from .login import LoginNode
from .slurm import Slurm

JOBS = 45
DOWN = 2.0
"""Seconds for which a system that was killed stays away."""

FEDERATION = """
name: three
sites:
  - {{ name: home, nucleus: true }}
  - {{ name: cluster }}
  - {{ name: grid }}
storages:
  - {{ name: home-disk, site: home, url: "file://{place}/home-disk", storage_min_free: 0 }}
  - {{ name: cluster-disk, site: cluster, url: "file://{place}/cluster-disk", storage_min_free: 0 }}
  - {{ name: grid-disk, site: grid, url: "file://{place}/grid-disk", storage_min_free: 0 }}
queues:
  - name: home-queue
    site: home
    storage: home-disk
    computing_element: {{ max_pilots: 1, options: {{ directory: "{place}/pilots" }} }}
  - name: cluster-queue
    site: cluster
    storage: cluster-disk
    computing_element:
      kind: slurm
      max_pilots: 2
      pilot_walltime: 3600
      options:
        ssh: cluster
        ssh_config: "{config}"
        spool: "{place}/spool"
        tunnel: true
        relay_host: 127.0.0.1
  - name: grid-queue
    site: grid
    storage: grid-disk
    computing_element: {{ kind: arc, max_pilots: 2, pilot_walltime: 3600, options: {arc} }}
loops: {{ period: 0.5, heartbeat: 1, pilot_idle: 5 }}
timeouts: {{ heartbeat: 15, sent: 15, starting: 30, holding: 30, transferring: 60, pilot_created: 60 }}
director: {{ failing_pause: 1, max_pilot_waiting_hours: 0.02 }}
staging: {{ delivery_timeout: 5, retry_delay: 0.5, max_attempts: 50 }}
"""

DISKS = ("home-disk", "cluster-disk", "grid-disk")
TASK = {
    "name": "sums",
    "nucleus": "home",
    "command": ["sh", "-c", "sleep 1; sha256sum $(cat inputs.txt) > sums.txt; hostname >> sums.txt"],
    "inputs": [{"storages": DISKS, "glob": "data/*"}],
    "files_per_job": 1,
    "outputs": ["sums.txt"],
    "scouts": 0,
    "max_attempts": 100,
}


@pytest.fixture
def house(open_place: Path, login: LoginNode, arc_server: ArcServer, free_port: int) -> Iterator[House]:
    """A server, and inputs of which each site has a third."""
    place = open_place
    for number in range(JOBS):
        data = place / DISKS[number % 3] / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / f"{number:03}").write_text(f"{number}\n" * 100)
    arc = yaml.safe_dump(arc_server.options, default_flow_style=True, width=10_000).strip()
    federation = FEDERATION.format(place=place, config=login.place / "config", arc=arc)
    try:
        with running(place, free_port, federation) as house:
            yield house
    finally:
        print(arc_server.last_words())


@pytest.mark.slow
def test_one_task_finishes_at_three_sites_while_each_is_killed_and_started_again(
    house: House, slurm: Slurm, login: LoginNode, arc_server: ArcServer, open_place: Path
) -> None:
    task = house.call("POST", "/tasks", {"tasks": [TASK]})["tasks"][0]["id"]

    def finished() -> int:
        found: int = house.call("GET", f"/tasks/{task}")["jobs"].get("finished", 0)
        return found

    def goes_on(what: str) -> None:
        goal = min(JOBS, finished() + 3)
        wait_for(lambda: finished() >= goal, f"jobs finish after {what} was killed")

    def works(queue: str) -> None:
        wait_for(lambda: _has_run(house, queue), f"a pilot of {queue} has work")

    works("home-queue")
    wait_for(lambda: house.kill_an_agent(random.Random(1)), "there is a pilot to kill")
    works("cluster-queue")
    slurm.kill_controller()
    time.sleep(DOWN)
    slurm.start_controller()
    goes_on("a pilot and slurmctld")
    login.kill()
    time.sleep(DOWN)
    login.start()
    goes_on("sshd")
    works("grid-queue")
    arc_server.kill()
    time.sleep(DOWN)
    arc_server.start()
    goes_on("A-REX")
    house.restart("all")
    wait_for(lambda: finished() == JOBS, "the task finishes after the server was killed")
    queues = Counter(job["queue"] for job in house.call("GET", f"/tasks/{task}/jobs?limit=1000")["jobs"])
    assert queues.keys() == {"home-queue", "cluster-queue", "grid-queue"}
    outputs = [path for path in (open_place / "home-disk/tasks").rglob("sums.txt") if path.stat().st_size]
    assert len(outputs) == JOBS, "every output is delivered once"


def _has_run(house: House, queue: str) -> bool:
    """Tell whether a pilot of a queue called home, and was given a job."""
    return any(
        pilot["queue"] == queue and pilot["matched"] for pilot in house.call("GET", "/pilots")["pilots"]
    )
