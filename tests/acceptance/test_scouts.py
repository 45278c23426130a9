"""Estimates that are far from the truth are replaced by what the task's scouts needed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for

from .house import House, running

JOBS, SCOUTS = 6, 2

FEDERATION = """
name: scouts
sites: [{{ name: here }}]
storages: [{{ name: disk, site: here, url: "file://{place}/storage", storage_min_free: 0 }}]
queues:
  - {{ name: long, site: here, storage: disk, max_memory: 8000, computing_element: {element} }}
  - {{ name: short, site: here, storage: disk, max_memory: 600, max_walltime: 3600,
      computing_element: {element} }}
  - {{ name: tiny, site: here, storage: disk, max_memory: 50, max_walltime: 3600,
      computing_element: {element} }}
director: {{ period: 0.2 }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 2 }}
timeouts: {{ heartbeat: 60 }}
"""
ELEMENT = '{{ max_pilots: 1, pilot_slots: 2, options: {{ directory: "{place}/pilots" }} }}'

PAYLOAD = """
import pathlib, time
memory = b"x" * 80_000_000
pathlib.Path("scratch").write_bytes(b"x" * 2_000_000)
pathlib.Path("out.dat").write_bytes(b"x" * 1_000_000)
while time.process_time() < 0.2:
    pass
time.sleep(1.2)
"""


@pytest.fixture
def house(tmp_path: Path, free_port: int) -> Iterator[House]:
    """A running house."""
    federation = FEDERATION.format(place=tmp_path, element=ELEMENT.format(place=tmp_path))
    with running(tmp_path, free_port, federation, "pilots", "storage") as house:
        yield house


def submit(house: House, **asked: float) -> int:
    task = {
        "name": "work",
        "command": ["python3", "payload.py"],
        "payload_files": {"payload.py": PAYLOAD},
        "outputs": ["out.dat"],
        "jobs": JOBS,
        "events_per_job": 10,
        "scouts": SCOUTS,
        **asked,
    }
    return int(house.call("POST", "/tasks", {"tasks": [task]})["tasks"][0]["id"])


def finished(house: House, task: int) -> dict[str, Any]:
    def ended() -> bool:
        return house.call("GET", f"/tasks/{task}")["state"] in ("finished", "failed")

    wait_for(ended, f"the end of task {task}")
    view: dict[str, Any] = house.call("GET", f"/tasks/{task}")
    jobs = house.call("GET", f"/tasks/{task}/jobs")["jobs"]
    assert view["state"] == "finished", (view, jobs, house.last_words())
    assert [job["kind"] for job in jobs] == ["scout"] * SCOUTS + ["normal"] * (JOBS - SCOUTS)
    assert {job["queue"] for job in jobs if job["kind"] == "scout"} == {"long"}
    assert {job["attempt"] for job in jobs} == {1}
    scouts = [job for job in jobs if job["kind"] == "scout"]
    assert min(job["created"] for job in jobs[SCOUTS:]) >= max(job["ended"] for job in scouts)
    return view


def fitting(house: House, task: int, kind: str) -> set[str]:
    """The queues that passed every check for jobs of a kind, when they were first placed."""
    choices = house.call("GET", f"/tasks/{task}/explain")["choices"]
    first = [choice for choice in choices if choice["job_kind"] == kind][-1]
    return set(first["candidates"]["queues"])


@pytest.mark.endurance
def test_estimates_far_too_high_or_too_low_are_replaced(house: House) -> None:
    """High ones keep the other jobs from no queue; low ones end no payload, and lead it nowhere too small."""
    high = submit(house, ram=6000, cpu_time=50_000, out_disk=1, work_disk=500)
    low = submit(house, ram=1, walltime=1)
    for task in (high, low):
        view = finished(house, task)
        measured = view["measured"]
        assert measured["finished"] == SCOUTS
        assert 100 <= measured["memory"] <= 300
        assert 0.2 * 10 / 10 <= measured["cpu_time"] < 50
        assert 1.2 < measured["walltime"] < 60
        assert measured["out_disk"] == pytest.approx(1.2 / 10)
        assert measured["work_disk"] == pytest.approx(1.2 * 2, rel=0.2)
        assert fitting(house, task, "scout") == {"long"}
        assert fitting(house, task, "normal") == {"long", "short"}
        assert (view["spec"]["ram"], view["spec"]["out_disk"]) in ((6000, 1), (1, 0))
