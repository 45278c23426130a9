"""One task over a local site and a Slurm behind SSH, while each part is killed and started again."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.house import House, wait_until

from .login import LoginNode
from .slurm import Slurm

JOBS = 40
PATIENCE = 150.0
FEDERATION = """
name: two
sites:
  - {{ name: home, nucleus: true }}
  - {{ name: cluster }}
storages:
  - {{ name: home-disk, site: home, url: "file://{place}/home-disk" }}
  - {{ name: cluster-disk, site: cluster, url: "file://{place}/cluster-disk" }}
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
      max_pilots: 4
      pilot_walltime: 3600
      options:
        ssh: cluster
        ssh_config: "{config}"
        spool: "{place}/spool"
        tunnel: true
        relay_host: 127.0.0.1
loops: {{ period: 0.5, heartbeat: 1, pilot_idle: 5 }}
timeouts: {{ heartbeat: 15, sent: 15, starting: 30, holding: 30, transferring: 60, pilot_created: 60 }}
director: {{ failing_pause: 1, max_pilot_waiting_hours: 0.01 }}
staging: {{ delivery_timeout: 5, retry_delay: 0.5, max_attempts: 50 }}
"""

TASK = {
    "name": "sums",
    "nucleus": "home",
    "command": ["sh", "-c", "sleep 1; sha256sum $(cat inputs.txt) > sums.txt; hostname >> sums.txt"],
    "inputs": [{"storages": ["home-disk", "cluster-disk"], "glob": "data/*"}],
    "files_per_job": 1,
    "outputs": ["sums.txt"],
    "scouts": 0,
    "max_attempts": 100,
}


@pytest.fixture
def house(tmp_path: Path, login: LoginNode, free_port: int) -> Iterator[House]:
    """A server, and inputs of which each site has half."""
    for number in range(JOBS):
        place = tmp_path / ("home-disk" if number % 2 else "cluster-disk") / "data"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:03}").write_text(f"{number}\n" * 100)
    file = tmp_path / "federation.yaml"
    file.write_text(FEDERATION.format(place=tmp_path, config=login.place / "config"))
    made = House(tmp_path, f"sqlite:///{tmp_path}/store.db", free_port, file, {"server": (str(file),)})
    made.start("server")
    try:
        yield made
    except BaseException:
        print(made.last_words())
        raise
    finally:
        made.stop()


@pytest.mark.slow
def test_a_task_finishes_while_each_part_is_killed_and_started_again(
    house: House, slurm: Slurm, login: LoginNode, tmp_path: Path
) -> None:
    task = house.call("POST", "/tasks", {"tasks": [TASK]})["tasks"][0]["id"]

    def finished() -> int:
        found: int = house.call("GET", f"/tasks/{task}")["jobs"].get("finished", 0)
        return found

    wait_until(lambda: _heard(house) > 0, 90, f"a pilot of the cluster calls home\n{slurm.words()}")
    slurm.kill_controller()
    time.sleep(2)
    slurm.start_controller()
    wait_until(lambda: finished() > 4, PATIENCE, "jobs finish after slurmctld was killed")
    login.kill()
    time.sleep(2)
    login.start()
    wait_until(lambda: finished() > 12, PATIENCE, "jobs finish after sshd was killed")
    house.restart("server")
    wait_until(lambda: finished() == JOBS, PATIENCE, "the task finishes after the server was killed")
    sites = Counter(job["queue"] for job in house.call("GET", f"/tasks/{task}/jobs?limit=1000")["jobs"])
    assert sites.keys() == {"home-queue", "cluster-queue"}
    outputs = list((tmp_path / "home-disk/tasks").rglob("sums.txt"))
    assert len(outputs) == JOBS
    print(sites, [(pilot["state"], pilot["error"]) for pilot in house.call("GET", "/pilots")["pilots"]])


def _heard(house: House) -> int:
    pilots = house.call("GET", "/pilots")["pilots"]
    return sum(pilot["queue"] == "cluster-queue" and pilot["state"] == "running" for pilot in pilots)
