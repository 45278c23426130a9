"""A store that goes back to a backup, while a pilot of afterwards still runs a payload."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests import postgresql
from tests.waiting import wait_for

from .house import House, running
from .test_kills import PAYLOAD

FEDERATION = """
name: restores
sites:
  - {{ name: north, nucleus: true }}
storages:
  - {{ name: north-disk, site: north, url: "file://{place}/north", storage_min_free: 0 }}
queues:
  - name: north-queue
    site: north
    storage: north-disk
    computing_element:
      max_pilots: 2
      pilot_slots: 2
      writable_paths: ["{place}/ledger"]
      options: {{ directory: "{place}/pilots" }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 3 }}
timeouts: {{ heartbeat: 6, sent: 6, starting: 20 }}
director: {{ period: 0.2, failing_pause: 0.5 }}
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A directory that also the user of a PostgreSQL server may enter, and the address of a store."""
    directory = Path(tempfile.mkdtemp(prefix="pilotage-restores-"))
    directory.chmod(0o755)
    if request.param == "sqlite":
        yield directory, f"sqlite:///{directory}/store.db"
    else:
        server = postgresql.start(directory / "postgresql")
        uri = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        yield directory, uri.render_as_string(False)
        server.cleanup()
    shutil.rmtree(directory, ignore_errors=True)


def task(place: Path, name: str, seconds: float, ledger: str = "ledger") -> dict[str, Any]:
    payload = PAYLOAD.replace("time.sleep(1.5)", f"time.sleep({seconds})")
    payload = payload.replace('open("inputs.txt")', 'os.popen("true")')
    return {
        "name": name,
        "command": [sys.executable, "-c", payload, str(place / ledger)],
        "jobs": 2,
        "outputs": ["sums.txt"],
        "nucleus": "north",
        "scouts": 0,
        "ram": 100,
    }


def store(house: House, *command: str) -> str:
    environment = os.environ | {
        "PILOTAGE_HOME": str(house.home),
        "PILOTAGE_STORE": house.store,
        "PATH": f"{postgresql.PROGRAMS}:{os.environ['PATH']}",
    }
    program = [sys.executable, "-m", "pilotage.cli", "store", *command]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.endurance
@pytest.mark.parametrize("moment", ["waiting", "running"])
def test_no_attempt_or_number_is_given_twice_after_a_restore(
    moment: str, place: tuple[Path, str], free_port: int
) -> None:
    directory, address = place
    text = FEDERATION.format(place=directory)
    with running(directory, free_port, text, "north", "pilots", "ledger", store=address) as house:
        house.call("POST", "/tasks", {"tasks": [task(directory, "kept", 12)]})
        file = directory / "backup"
        if moment == "waiting":
            store(house, "backup", str(file))
        wait_for(lambda: len(list((directory / "ledger").iterdir())) == 2, "both payloads")
        if moment == "running":
            store(house, "backup", str(file))
        assert file.stat().st_mode & 0o777 == 0o600
        house.call("POST", "/tasks", {"tasks": [task(directory, "lost", 1)]})
        house.running["all"].kill()
        house.running["all"].wait()
        told = store(house, "restore", str(file), "--replace")
        assert "the newest task is 1" in told
        house.start("all")
        wait_for(lambda: house.call("GET", "/tasks/1")["state"] == "finished", "the end of the task")
        jobs = house.call("GET", "/tasks/1/jobs")["jobs"]
        assert all(job["attempt"] > 1000 for job in jobs), jobs
        assert not (directory / "ledger" / "overlaps").exists(), "no two attempts of a job at once"
        assert len(list((directory / "north").rglob("tasks/**/sums.txt"))) == 2
        later = house.call("POST", "/tasks", {"tasks": [task(directory, "later", 0)]})["tasks"][0]["id"]
        assert later > 1_000_000
        wait_for(lambda: house.call("GET", f"/tasks/{later}")["state"] == "finished", "the later task")
        assert [one["id"] for one in house.call("GET", "/tasks")["tasks"]] == [later, 1]
