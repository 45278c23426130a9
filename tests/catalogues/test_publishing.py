"""Tasks of a real Pilotage leave their outputs in a real Rucio, and others read them from there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import adler32

import pytest

from tests.acceptance.house import House, running
from tests.waiting import wait_for

from .rucio_server import LOGIN, rucio_server
from .test_rucio import administrator, protocol

JOBS = 4
FEDERATION = """
name: published
sites: [{{ name: here }}]
storages: [{{ name: disk, site: here, url: "file://{place}/storage", storage_min_free: 0 }}]
queues:
  - name: short
    site: here
    storage: disk
    computing_element: {{ max_pilots: 1, pilot_slots: 2, options: {{ directory: "{place}/pilots" }} }}
director: {{ period: 0.2 }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 2 }}
timeouts: {{ heartbeat: 60 }}
catalogues:
  - name: rucio
    vos: [atlas]
    storages: [{{ rse: DISK, storage: disk, prefix: "file://localhost/rse/DISK/" }}]
    outputs:
      scopes: ["user.{{name}}"]
      rule: {{ rse_expression: DISK, lifetime: 86400 }}
      retry_delay: 1
    options: {{ url: "{url}", account: {account}, username: {username}, password: {password} }}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with rucio_server(tmp_path_factory.mktemp("rucio")) as url:
        client = administrator(url)
        client.add_rse("DISK", deterministic=False)
        client.add_protocol("DISK", protocol("DISK"))
        client.set_local_account_limit("root", "DISK", 10**15)
        client.add_scope("root", "user.ada")
        yield url


@pytest.fixture
def house(tmp_path: Path, free_port: int, url: str) -> Iterator[House]:
    federation = FEDERATION.format(place=tmp_path, url=url, **LOGIN)
    with running(tmp_path, free_port, federation, "pilots", "storage") as house:
        made = house.call("POST", "/tokens", {"role": "user", "name": "ada", "vo": "atlas"})
        (house.home / "token").write_text(made["token"])
        yield house


def submitted(house: House, **asked: Any) -> int:
    task = {"name": "work", "scouts": 0, **asked}
    return int(house.call("POST", "/tasks", {"tasks": [task]})["tasks"][0]["id"])


def finished(house: House, task: int) -> None:
    def ended() -> bool:
        state = house.call("GET", f"/tasks/{task}")["state"]
        assert state != "failed", house.call("GET", f"/tasks/{task}/explain")["lines"]
        return bool(state == "finished")

    wait_for(ended, f"the end of task {task}")


def told(house: House, task: int) -> str:
    remarks = house.call("GET", f"/tasks/{task}")["remarks"]
    return "\n".join(one["text"] for one in remarks if one["kind"] == "publication")


def test_outputs_come_into_rucio_though_the_server_is_killed_and_another_task_reads_them(
    house: House, url: str
) -> None:
    write = ["sh", "-c", "printf made > out.dat"]
    task = submitted(
        house, command=write, outputs=["out.dat"], jobs=JOBS, output_dataset="rucio~user.ada:results"
    )
    finished(house, task)
    # The task has just ended: at this moment its outputs are being registered, or about to be.
    house.restart("all")
    wait_for(lambda: told(house, task).endswith("; closed"), "the dataset is closed")
    assert told(house, task) == f"outputs in rucio~user.ada:results: {JOBS} published; closed"
    client = administrator(url)
    assert client.get_did("user.ada", "results")["open"] is False
    found = sorted(
        (one["name"], one["bytes"], one["adler32"]) for one in client.list_files("user.ada", "results")
    )
    names = [f"results.published.{job}.out.dat" for job in range(1, JOBS + 1)]
    assert found == [(name, 4, f"{adler32(b'made'):08x}") for name in names]
    replicas = {
        one["name"]: one["rses"] for one in client.list_replicas([{"scope": "user.ada", "name": "results"}])
    }
    prefix = "file://localhost/rse/DISK"
    assert replicas[names[0]] == {"DISK": [f"{prefix}/tasks/published/{task}/1/out.dat"]}
    (rule,) = client.list_did_rules("user.ada", "results")
    assert (rule["rse_expression"], rule["copies"], rule["state"]) == ("DISK", 1, "OK")
    reader = submitted(
        house,
        command=["sh", "-c", "cat $(cat inputs.txt) > all.dat"],
        inputs=[{"dataset": "results", "scope": "rucio~user.ada"}],
        outputs=["all.dat"],
        files_per_job=JOBS,
    )
    finished(house, reader)
    (output,) = house.call("GET", f"/tasks/{reader}/outputs")["files"]
    assert output["size"] == 4 * JOBS
    description = house.call("GET", f"/files/describe?file=user.ada~atlas:tasks/published/{task}/1/out.dat")
    assert description["published"] == [f"published in rucio~user.ada:results as {names[0]}"]


def test_a_rucio_that_is_away_for_a_while_gets_the_outputs_later(house: House, url: str) -> None:
    client = administrator(url)
    # Nothing may be written there for the moment.
    client.update_rse("DISK", {"availability_write": False})
    task = submitted(
        house,
        command=["sh", "-c", "printf made > out.dat"],
        outputs=["out.dat"],
        output_dataset="rucio~user.ada:later",
    )
    finished(house, task)
    wait_for(lambda: "tried again in" in told(house, task), "the refusal is told")
    assert "DISK" in told(house, task)
    client.update_rse("DISK", {"availability_write": True})
    wait_for(lambda: told(house, task).endswith("; closed"), "the dataset is closed")
    assert [one["name"] for one in client.list_files("user.ada", "later")]
