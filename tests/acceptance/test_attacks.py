"""Payloads that attack their pilot, on a whole house: what they reach, and how often they are tried."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for

from .house import House

FEDERATION = """
name: attacked
sites: [{{ name: here }}]
storages: [{{ name: disk, site: here, url: "file://{place}/storage" }}]
queues:
  - name: short
    site: here
    storage: disk
    computing_element:
      max_pilots: 2
      containment: {containment}
      options: {{ directory: "{place}/pilots" }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 3 }}
timeouts: {timeouts}
director: {{ period: 0.2, failing_pause: 0.5 }}
"""

SHORT = "{ heartbeat: 5, sent: 5, starting: 8, pilot_created: 20 }"
"""Where a pilot is killed: its death is to be seen soon."""
LONG = "{ heartbeat: 60, sent: 60, starting: 60, pilot_created: 60 }"
"""Where none is: on a busy machine nothing is taken for dead."""

THIEF = """
import json, os, pathlib, sys
def reads(path):
    try:
        pathlib.Path(path).read_bytes()
    except OSError:
        return False
    return True
place = pathlib.Path(sys.argv[1])
ours = {str(os.getpid()), str(os.getppid())}  # the payload, and the init of its namespace
found = {
    "token": reads(place / "home/token"),
    "database": reads(place / "store.db"),
    "log": reads(place / "home/all.log"),
    "processes": [process for process in os.listdir("/proc") if process.isdigit() and process not in ours],
}
json.dump({name: bool(value) for name, value in found.items()}, open("found.json", "w"))
"""

KILLER = """
import os, signal
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
supervisor = os.getppid()
agent = parent(supervisor)
os.kill(agent, signal.SIGKILL)
os.kill(supervisor, signal.SIGKILL)
"""


@pytest.fixture
def house(tmp_path: Path, free_port: int, request: pytest.FixtureRequest) -> Iterator[House]:
    """A running house whose one queue contains payloads as the test asks."""
    for name in ("home", "pilots", "storage"):
        (tmp_path / name).mkdir()
    federation = tmp_path / "federation.yaml"
    timeouts = SHORT if request.param == "off" else LONG
    federation.write_text(FEDERATION.format(place=tmp_path, containment=request.param, timeouts=timeouts))
    store = f"sqlite:///{tmp_path}/store.db"
    house = House(tmp_path / "home", store, free_port, federation, {"all": (str(federation),)})
    try:
        house.start("all")
        yield house
    finally:
        house.stop()


def ended(house: House, **task: Any) -> dict[str, Any]:
    """A task of one job, when it has ended."""
    asked = {"name": "attack", "scouts": 0, **task}
    number = house.call("POST", "/tasks", {"tasks": [asked]})["tasks"][0]["id"]

    def over() -> bool:
        return house.call("GET", f"/tasks/{number}")["state"] in ("finished", "failed")

    wait_for(over, f"the end of the task\n{house.last_words()}")
    view: dict[str, Any] = house.call("GET", f"/tasks/{number}")
    return view


@pytest.mark.parametrize("house", ["strongest"], indirect=True)
def test_by_default_a_payload_sees_nothing_of_the_server_on_the_same_machine(
    house: House, tmp_path: Path
) -> None:
    task = ended(
        house,
        command=["python3", "thief.py", str(tmp_path)],
        payload_files={"thief.py": THIEF},
        outputs=["found.json"],
    )
    (pilot, *_) = house.call("GET", "/pilots")["pilots"]
    if pilot["containment"] == "none":
        pytest.skip("this machine holds nothing, which its pilot says")
    assert task["state"] == "finished", house.last_words()
    (found,) = (tmp_path / "storage/tasks").rglob("found.json")
    processes = pilot["containment"] == "landlock"  # which hides none
    assert json.loads(found.read_text()) == {
        "token": False,
        "database": False,
        "log": False,
        "processes": processes,
    }


@pytest.mark.parametrize("house", ["off"], indirect=True)
def test_a_payload_that_kills_its_pilot_uses_up_its_attempts(house: House) -> None:
    """Uncontained it can; each death of a pilot is a try, however early it comes."""
    task = ended(house, command=["python3", "killer.py"], payload_files={"killer.py": KILLER}, max_attempts=2)
    assert task["state"] == "failed"
    (job,) = house.call("GET", f"/tasks/{task['id']}/jobs")["jobs"]
    assert job["attempt"] <= 2
    assert {pilot["containment"] for pilot in house.call("GET", "/pilots")["pilots"]} <= {"off", ""}


@pytest.mark.parametrize("house", ["required"], indirect=True)
def test_a_contained_payload_cannot_kill_its_pilot(house: House) -> None:
    task = ended(house, command=["python3", "killer.py"], payload_files={"killer.py": KILLER}, max_attempts=1)
    assert task["state"] == "failed"
    (job,) = house.call("GET", f"/tasks/{task['id']}/jobs")["jobs"]
    assert "supervisor" not in job["error"]
    assert job["exit_code"] in (1, -9), "it may kill itself"
    assert {pilot["state"] for pilot in house.call("GET", "/pilots")["pilots"]} <= {"running", "finished"}
