"""A server whose pilots go through a real Slurm."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from pilotage.flow.steps import STEPS
from tests.acceptance.house import House, running
from tests.waiting import wait_for

from .slurm import Slurm

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "failures.md"
FEDERATION = """
name: clusters
sites:
  - {{ name: cluster, nucleus: true }}
storages:
  - {{ name: disk, site: cluster, url: "file://{place}/disk", storage_min_free: 0 }}
queues:
  - name: cluster-main
    site: cluster
    storage: disk
    cores: 1
    computing_element:
      kind: slurm
      max_pilots: 8
      pilot_slots: 1
      pilot_walltime: 3600
      options: {{ spool: "{place}/spool", partition: main }}
director: {{ policy: balanced }}
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
def test_p12_six_jobs_run_through_slurm_and_do_not_queue_six_times(house: House, slurm: Slurm) -> None:
    task = house.call("POST", "/tasks", {"tasks": [TASK]})["tasks"][0]["id"]
    wait_for(lambda: house.call("GET", f"/tasks/{task}")["state"] == "finished", f"its end\n{slurm.words()}")
    assert house.call("GET", f"/tasks/{task}")["jobs"] == {"finished": 6}
    pilots = house.call("GET", "/pilots")["pilots"]
    assert all(re.search(r"/clusters-[0-9a-f]+-pilot-", pilot["reference"]) for pilot in pilots)
    assert len(pilots) <= 2, "one takes an hour of such jobs; a slow machine may ask for a second"


@pytest.mark.slow
def test_a_queue_is_tested_by_a_pilot_in_its_slot(house: House, slurm: Slurm) -> None:
    number = house.call("POST", "/queues/cluster-main/test")["pilot"]
    path = f"/pilots/{number}/logs"
    wait_for(lambda: house.call("GET", path)["node"], f"what it found\n{slurm.words()}")
    node = house.call("GET", path)["node"]
    assert node["cores"] == 1, "the slot, not the machine"
    assert abs(node["clock_ahead"]) < 10


@pytest.mark.slow
def test_the_task_of_the_tutorial_runs_through_slurm(house: House, slurm: Slurm, tmp_path: Path) -> None:
    text = PAGE.read_text()
    task = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    task["inputs"] = [{"storages": ["disk"], "glob": "samples/*.fa"}]
    samples = tmp_path / "disk" / "samples"
    samples.mkdir()
    for number in range(8):
        (samples / f"{number}.fa").write_text(f">{number}\n" + ("" if number % 4 == 0 else "ACGT\n"))
    number = house.call("POST", "/tasks", {"tasks": [task]})["tasks"][0]["id"]
    path = f"/tasks/{number}"
    wait_for(lambda: house.call("GET", path)["state"] == "failed", f"two fail\n{slurm.words()}", 180)
    for broken in (0, 4):
        (samples / f"{broken}.fa").write_text(f">{broken}\nAACC\n")
    house.call("POST", f"{path}/retry", {})
    wait_for(lambda: house.call("GET", path)["state"] == "finished", f"its end\n{slurm.words()}", 180)
    (table,) = tmp_path.rglob("table.tsv")
    assert len(table.read_text().splitlines()) == 8


@pytest.mark.endurance
@pytest.mark.parametrize("killed", [False, True])
def test_servers_submit_no_pilot_twice_though_sbatch_takes_45_s(
    tmp_path: Path, slurm: Slurm, free_port: int, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while the server lives that waits for it, and not when it has ended and two others take over."""
    real, log = shutil.which("sbatch"), tmp_path / "submissions"
    slow = tmp_path / "bin" / "sbatch"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\necho begun >>{log}\nsleep 45\necho "$@" >>{log}\nexec {real} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").mkdir()
    file = tmp_path / "federation.yaml"
    file.write_text(FEDERATION.replace("max_pilots: 4", "max_pilots: 1").format(place=tmp_path))
    rest = ",".join(one.name for one in STEPS if one.has_loop and one.name != "provision")
    others = ("--no-api", "--only", "provision")
    house = House(
        tmp_path / "home",
        f"sqlite:///{tmp_path}/store.db",
        free_port,
        file,
        {"api": (str(file), "--only", rest), "a": others, "b": others, "c": others},
    )
    task = {"name": "slow", "nucleus": "cluster", "command": ["sleep", "20"], "scouts": 0}
    try:
        for name in ("api", "a"):
            house.start(name)
            house.call("GET", "/federation")
        number = house.call("POST", "/tasks", {"tasks": [task]})["tasks"][0]["id"]
        wait_for(lambda: house.call("GET", "/pilots")["pilots"], "the pilot is recorded", 60)
        for name in ("b", "c"):
            house.start(name)
        if killed:
            wait_for(log.exists, "sbatch")
            submitter = psutil.Process(house.running["a"].pid)
            for one in [submitter, *submitter.children(recursive=True)]:
                one.kill()
        path = f"/tasks/{number}"
        wait_for(lambda: house.call("GET", path)["state"] == "finished", f"its end\n{slurm.words()}", 300)
        (job,) = house.call("GET", f"{path}/jobs")["jobs"]
        assert job["attempt"] == 1, "no healthy payload was killed"
        names = re.findall(r"--job-name=(\S+)", log.read_text())
        assert len(names) == len(set(names)), names
    finally:
        house.stop()
        print(house.last_words())


@pytest.mark.slow
def test_the_job_of_a_killed_agent_goes_on_within_minutes_and_everybody_sees_why(
    tmp_path: Path, slurm: Slurm, free_port: int
) -> None:
    """Its pilot's end is believed after 2.5 calls that did not come: 15 s here, 150 s by default."""
    federation = FEDERATION.replace("heartbeat: 1,", "heartbeat: 6,").format(place=tmp_path)
    command = ["sh", "-c", "case $PILOTAGE_ATTEMPT in *.1) sleep 1000;; esac"]
    task = {"name": "killed", "nucleus": "cluster", "command": command, "scouts": 0}
    with running(tmp_path, free_port, federation, "disk") as house:
        number = house.call("POST", "/tasks", {"tasks": [task]})["tasks"][0]["id"]
        path = f"/tasks/{number}"
        wait_for(lambda: house.call("GET", path)["jobs"] == {"running": 1}, f"its start\n{slurm.words()}")
        (job,) = (one["id"] for one in house.call("GET", f"{path}/jobs")["jobs"])
        for agent in house.agents():
            agent.kill()
        wait_for(lambda: "ended" in house.command("stuck"), f"the end of its batch job\n{slurm.words()}")
        assert "1 job there go on elsewhere by" in house.command("stuck")
        told = " ".join(house.command("explain", f"job:{job}").split())
        assert re.search(
            r"the batch job of pilot \d+ ended at .*; unless .* its jobs go on elsewhere at", told
        ), told
        drained = house.command("queues", "drain", "cluster-main", "--because", "a test")
        assert "1 of the running jobs are at pilots that ended in the batch system" in drained
        house.command("queues", "open", "cluster-main")
        operator = {"Authorization": f"Bearer {(house.home / 'token').read_text()}"}
        metrics = httpx.get(f"{house.url}/metrics", headers=operator).text
        assert 'pilotage_jobs_pilot_ended{queue="cluster-main"} 1.0' in metrics
        wait_for(lambda: house.call("GET", path)["state"] == "finished", f"its end\n{slurm.words()}", 180)
        assert house.call("GET", f"/jobs/{job}")["attempt"] == 2
        assert "Nothing is stuck" in house.command("stuck")
