"""The disk that gathers the outputs is really full: no work is lost, and little is done in vain (F4)."""

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.disks import SmallDisk
from tests.waiting import wait_for

from .house import House, running

JOBS, SLOTS, FAILURES = 12, 4, 7

FEDERATION = """
name: full
brokerage: {{ storage_min_free: 0, pending_time: 1 }}
director: {{ period: 0.2, policy: balanced }}
loops: {{ period: 0.2, heartbeat: 0.5, pilot_idle: 60 }}
staging: {{ storage_rest: 1, retry_delay: 0.1 }}
sites: [{{ name: home, nucleus: true }}, {{ name: away }}]
storages:
  - {{ name: home-disk, site: home, url: "file://{place}/home-disk" }}
  - {{ name: away-disk, site: away, url: "file://{place}/away-disk" }}
queues:
  - {{ name: home, site: home, storage: home-disk, num_slots: {slots}, computing_element: {element} }}
  - {{ name: away, site: away, storage: away-disk, num_slots: {slots}, computing_element: {element} }}
links: [{{ source: away, destination: home, closeness: 1 }}]
"""
ELEMENT = '{{ max_pilots: 1, pilot_slots: {slots}, options: {{ directory: "{place}/pilots" }} }}'
WORK = {
    "name": "work",
    "scouts": 0,
    "jobs": JOBS,
    "max_attempts": 2,
    "walltime": 60,
    "command": ["sh", "-c", "head -c 50000 /dev/zero > out.txt"],
    "outputs": ["out.txt"],
    "nucleus": "home",
}


def jobs(house: House, task: int) -> list[dict[str, Any]]:
    return list(house.call("GET", f"/tasks/{task}/jobs?limit=100")["jobs"])


def failures(house: House, task: int) -> int:
    """The failures that have opened the breaker of writing to home's disk, again and again."""
    assert not [job["error"] for job in jobs(house, task) if job["state"] == "failed"]
    found = house.call("GET", "/breakers")["breakers"]
    return max((one["failures"] for one in found if "writing to home-disk" in one["what"]), default=0)


@pytest.mark.endurance
@pytest.mark.acceptance
@pytest.mark.slow
def test_f4_a_full_disk_at_the_nucleus_spends_no_attempt(tmp_path: Path, free_port: int) -> None:
    (tmp_path / "home-disk").mkdir()
    if (disk := SmallDisk.mounted(tmp_path / "home-disk", "20m")) is None:
        pytest.skip("only root may mount a small disk")
    try:
        disk.fill()
        element = ELEMENT.format(place=tmp_path, slots=SLOTS)
        text = FEDERATION.format(place=tmp_path, slots=SLOTS, element=element)
        with running(tmp_path, free_port, text, "away-disk", "pilots") as house:
            (task,) = (one["id"] for one in house.call("POST", "/tasks", {"tasks": [WORK]})["tasks"])
            wait_for(lambda: failures(house, task) >= FAILURES, "the breaker opens again and again")
            disk.clear()
            wait_for(
                lambda: house.call("GET", f"/tasks/{task}")["state"] in ("finished", "failed"), "its end"
            )
            found = jobs(house, task)
            assert {job["state"] for job in found} == {"finished"}, [job["error"] for job in found]
            # All slots of both queues once before the breaker opens; afterwards one probe each time.
            assert sum(job["attempt"] for job in found) <= JOBS + 2 * SLOTS + FAILURES
    finally:
        disk.unmount()
