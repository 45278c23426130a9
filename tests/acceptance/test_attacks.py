"""Payloads that attack their pilot, on a whole house: what they reach, and how often they are tried."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import locked_port
from tests.waiting import wait_for

from .house import House, running

FEDERATION = """
name: attacked
sites: [{{ name: here }}]
storages: [{{ name: disk, site: here, url: "file://{place}/storage", storage_min_free: 0 }}]
queues:
{queues}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 3 }}
timeouts: {timeouts}
director: {{ period: 0.2, failing_pause: 0.5 }}
"""

QUEUE = """
  - name: {containment}
    site: here
    storage: disk
    computing_element:
      max_pilots: 2
      containment: {containment}
      options: {{ directory: "{place}/pilots" }}
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


@contextmanager
def attacked(place: Path, timeouts: str, *containments: str) -> Iterator[House]:
    """A running house with a queue of each containment, which it is named after."""
    queues = "".join(QUEUE.format(place=place, containment=name) for name in containments)
    federation = FEDERATION.format(place=place, queues=queues, timeouts=timeouts)
    with locked_port() as port, running(place, port, federation, "pilots", "storage") as house:
        yield house


@pytest.fixture(scope="module")
def contained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house whose queues contain payloads, for all tests: it starts once."""
    with attacked(tmp_path_factory.mktemp("contained"), LONG, "strongest", "required") as house:
        yield house


@pytest.fixture
def uncontained(tmp_path: Path) -> Iterator[House]:
    """A house in which pilots are killed."""
    with attacked(tmp_path, SHORT, "off") as house:
        yield house


def ended(house: House, queue: str, **task: Any) -> dict[str, Any]:
    """A task of one job at a queue, when it has ended."""
    asked = {"name": "attack", "scouts": 0, "queues": [queue], **task}
    number = house.call("POST", "/tasks", {"tasks": [asked]})["tasks"][0]["id"]

    def over() -> bool:
        return house.call("GET", f"/tasks/{number}")["state"] in ("finished", "failed")

    wait_for(over, f"the end of the task\n{house.last_words()}")
    view: dict[str, Any] = house.call("GET", f"/tasks/{number}")
    return view


def pilots(house: House, queue: str) -> list[dict[str, Any]]:
    """Those of a queue."""
    return [pilot for pilot in house.call("GET", "/pilots")["pilots"] if pilot["queue"] == queue]


@pytest.mark.endurance
def test_by_default_a_payload_sees_nothing_of_the_server_on_the_same_machine(contained: House) -> None:
    place = contained.home.parent
    task = ended(
        contained,
        "strongest",
        command=["python3", "thief.py", str(place)],
        payload_files={"thief.py": THIEF},
        outputs=["found.json"],
    )
    (pilot, *_) = pilots(contained, "strongest")
    if pilot["containment"] == "none":
        pytest.skip("this machine holds nothing, which its pilot says")
    assert task["state"] == "finished", contained.last_words()
    (found,) = (place / "storage/tasks").rglob("found.json")
    processes = pilot["containment"] == "landlock"  # which hides none
    assert json.loads(found.read_text()) == {
        "token": False,
        "database": False,
        "log": False,
        "processes": processes,
    }


@pytest.mark.endurance
def test_a_payload_that_kills_its_pilot_uses_up_its_attempts(uncontained: House) -> None:
    """Uncontained it can; each death of a pilot is a try, however early it comes."""
    attack = {"command": ["python3", "killer.py"], "payload_files": {"killer.py": KILLER}}
    task = ended(uncontained, "off", **attack, max_attempts=2)
    assert task["state"] == "failed"
    (job,) = uncontained.call("GET", f"/tasks/{task['id']}/jobs")["jobs"]
    assert job["attempt"] <= 2
    assert {pilot["containment"] for pilot in pilots(uncontained, "off")} <= {"off", ""}


@pytest.mark.endurance
def test_a_contained_payload_cannot_kill_its_pilot(contained: House) -> None:
    attack = {"command": ["python3", "killer.py"], "payload_files": {"killer.py": KILLER}}
    task = ended(contained, "required", **attack, max_attempts=1)
    assert task["state"] == "failed"
    (job,) = contained.call("GET", f"/tasks/{task['id']}/jobs")["jobs"]
    assert "supervisor" not in job["error"]
    assert job["exit_code"] in (1, -9), "it may kill itself"
    # Another pilot may have been asked for meanwhile; none was lost.
    assert {pilot["state"] for pilot in pilots(contained, "required")}.isdisjoint({"failed", "cancelled"})
