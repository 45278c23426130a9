"""A real server with two sites, as its operator sees it: the log, and the verbs that steer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import locked_port
from tests.waiting import wait_for

from .house import House, running

FEDERATION = """
name: two
sites: [{{ name: north, nucleus: true }}, {{ name: south }}]
storages:
  - {{ name: north-disk, site: north, url: "file://{place}/north", free: 100 }}
  - {{ name: south-disk, site: south, url: "file://{place}/south", free: 100 }}
queues:
  - {{ name: north-queue, site: north, storage: north-disk, max_memory: 2000, max_walltime: 3600,
      computing_element: {{ kind: process, max_pilots: 1, options: {{ directory: "{place}/pilots" }} }} }}
  - {{ name: south-queue, site: south, storage: south-disk, max_memory: 2000, max_walltime: 3600,
      computing_element: {{ kind: process, max_pilots: 1, options: {{ directory: "{place}/pilots" }} }} }}
links:
  - {{ source: north, destination: south, closeness: 2 }}
  - {{ source: south, destination: north, closeness: 2 }}
director: {{ period: 0.2 }}
loops: {{ period: 0.2, heartbeat: 0.3, pilot_idle: 2 }}
"""
LOG = {"PILOTAGE_LOG_FORMAT": "json", "PILOTAGE_LOG_LEVEL": "debug", "PILOTAGE_ACCESS_LOG": "1"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One running house for all."""
    place = tmp_path_factory.mktemp("operating")
    federation = FEDERATION.format(place=place)
    with (
        locked_port() as port,
        running(place, port, federation, "north", "south", "pilots", environment=LOG) as house,
    ):
        yield house


def submit(house: House, **asked: object) -> int:
    task = {"name": "work", "command": ["true"], "walltime": 60, "ram": 100, "scouts": 0, **asked}
    return int(house.call("POST", "/tasks", {"tasks": [task]})["tasks"][0]["id"])


def ended(house: House, task: int) -> str:
    def state() -> str:
        found = str(house.call("GET", f"/tasks/{task}")["state"])
        return found if found in ("finished", "failed") else ""

    return wait_for(state, f"the end of task {task}")


def lines(house: House) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (house.home / "all.log").read_text().splitlines()]


def test_each_line_about_a_task_names_it_and_its_job(house: House) -> None:
    secret = "hunter2-of-the-payload"
    house.call("POST", "/secrets", {"name": "mine", "value": secret})
    task = submit(house, command=["false"], secrets=["mine"], max_attempts=1, jobs=2)
    assert ended(house, task) == "failed"
    jobs = {job["id"] for job in house.call("GET", f"/tasks/{task}/jobs")["jobs"]}
    found = lines(house)
    changes = [line for line in found if line["logger"] == "pilotage.transitions"]
    for job in jobs:
        about = [line for line in changes if f"job {job}: " in line["message"]]
        assert {line["task"] for line in about} == {task}
        assert {line["job"] for line in about} == {job}
        assert [line["level"] for line in about if "→ failed" in line["message"]] == ["info"]
    taken = [line for line in found if "taken by pilot" in line["message"] and line["job"] in jobs]
    assert {line["task"] for line in taken} == {task}
    assert all(line["pilot"] and line["queue"].endswith("-queue") for line in taken)
    asked_by_path = [line for line in found if line.get("route") == "/api/v1/tasks/{task}/jobs"]
    assert [(line["task"], line["person"]) for line in asked_by_path] == [(task, "operator")]
    assert changes[-1]["task"] == task
    assert changes[-1]["loop"] == "finish"
    text, token = (house.home / "all.log").read_text(), (house.home / "token").read_text()
    assert not [one for one in (secret, token) if one in text]
