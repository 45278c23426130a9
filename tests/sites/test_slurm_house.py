"""A server whose pilots go through a real Slurm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.house import House, running
from tests.waiting import wait_for

from .slurm import Slurm

FEDERATION = """
name: clusters
sites:
  - {{ name: cluster, nucleus: true }}
storages:
  - {{ name: disk, site: cluster, url: "file://{place}/disk" }}
queues:
  - name: cluster-main
    site: cluster
    storage: disk
    cores: 1
    computing_element:
      kind: slurm
      max_pilots: 4
      pilot_slots: 1
      pilot_walltime: 3600
      options: {{ spool: "{place}/spool", partition: main }}
loops: {{ period: 0.5, heartbeat: 1, pilot_idle: 3 }}
"""

TASK = {
    "name": "sums",
    "nucleus": "cluster",
    "command": ["sh", "-c", "sha256sum $(cat inputs.txt) > sums.txt"],
    "inputs": [{"storages": ["disk"], "glob": "data/*"}],
    "files_per_job": 1,
    "outputs": ["sums.txt"],
    "scouts": 0,
}


@pytest.fixture
def house(tmp_path: Path, slurm: Slurm, free_port: int) -> Iterator[House]:
    """A server, and six files of input."""
    (tmp_path / "disk/data").mkdir(parents=True)
    for number in range(6):
        (tmp_path / f"disk/data/{number}").write_text(f"{number}\n" * 1000)
    with running(tmp_path, free_port, FEDERATION.format(place=tmp_path)) as house:
        yield house


@pytest.mark.slow
def test_a_task_runs_through_slurm(house: House, slurm: Slurm) -> None:
    task = house.call("POST", "/tasks", {"tasks": [TASK]})["tasks"][0]["id"]
    wait_for(lambda: house.call("GET", f"/tasks/{task}")["state"] == "finished", f"its end\n{slurm.words()}")
    assert house.call("GET", f"/tasks/{task}")["jobs"] == {"finished": 6}
    pilots = house.call("GET", "/pilots")["pilots"]
    assert all("/clusters-pilot-" in pilot["reference"] for pilot in pilots)
    print(pilots)


@pytest.mark.slow
def test_a_queue_is_tested_by_a_pilot_in_its_slot(house: House, slurm: Slurm) -> None:
    number = house.call("POST", "/queues/cluster-main/test")["pilot"]
    path = f"/pilots/{number}/logs"
    wait_for(lambda: house.call("GET", path)["node"], f"what it found\n{slurm.words()}")
    node = house.call("GET", path)["node"]
    assert node["cores"] == 1, "the slot, not the machine"
    assert abs(node["clock_ahead"]) < 10
