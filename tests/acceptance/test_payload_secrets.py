"""A secret goes from a pipe to the payload, and stands nowhere else: one local site, real processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for

from .house import House, running

WORD = "S3CRET-w0rd"
FEDERATION = """
name: secrets
sites: [{{ name: here }}]
storages: [{{ name: disk, site: here, url: "file://{place}/storage", storage_min_free: 0 }}]
queues:
  - name: queue
    site: here
    storage: disk
    computing_element: {{ max_pilots: 1, options: {{ directory: "{place}/pilots" }} }}
director: {{ period: 0.2 }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 2 }}
"""


@pytest.fixture
def house(tmp_path: Path, free_port: int) -> Iterator[House]:
    """A running house."""
    with running(tmp_path, free_port, FEDERATION.format(place=tmp_path), "pilots", "storage") as house:
        yield house


def pilotage(house: House, *words: str, given: str = "") -> str:
    environment = {**os.environ, "PILOTAGE_HOME": str(house.home), "PILOTAGE_URL": house.url}
    command = [sys.executable, "-m", "pilotage.cli", *words]
    done = subprocess.run(command, input=given, env=environment, text=True, capture_output=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.endurance
def test_a_secret_from_a_pipe_reaches_the_payload_and_nothing_else(house: House, tmp_path: Path) -> None:
    house.call("GET", "/secrets")
    told = pilotage(house, "secrets", "set", "TOKEN", given=f"{WORD}\n")
    told += pilotage(house, "secrets", "list")
    command = "echo $TOKEN; printf %s $TOKEN | sha256sum > sum; sha256sum < $PILOTAGE_SECRETS/t > file"
    task = {
        "name": "work",
        "command": ["sh", "-c", command],
        "secrets": ["TOKEN", {"name": "TOKEN", "as": "SAME", "file": "t"}],
        "outputs": ["sum", "file"],
    }
    number = house.call("POST", "/tasks", {"tasks": [task]})["tasks"][0]["id"]
    wait_for(lambda: house.call("GET", f"/tasks/{number}")["state"] in ("finished", "failed"), "its end")
    assert house.call("GET", f"/tasks/{number}")["state"] == "finished", house.last_words()
    sums = {path.name: path.read_text() for path in (tmp_path / "storage/tasks").rglob("*") if path.is_file()}
    assert sums["sum"] == sums["file"]
    (job,) = house.call("GET", f"/tasks/{number}/jobs")["jobs"]
    told += pilotage(house, "logs", f"job:{job['id']}")
    assert "*" * len(WORD) in told
    told += pilotage(house, "explain", f"job:{job['id']}") + pilotage(house, "world") + house.last_words()
    assert WORD not in told
    house.stop()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert WORD.encode() not in path.read_bytes(), path
