"""Real pilots of a wide queue take jobs that wait at a narrow one, and read inputs from there (E1 to E3)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for

from .house import House, running

JOBS, SECONDS = 12, 2

FEDERATION = """
name: borrowing
sites: [{{ name: here }}, {{ name: there }}]
storages:
  - {{ name: here-disk, site: here, url: "file://{place}/here", remote_reads: true }}
  - {{ name: there-disk, site: there, url: "file://{place}/there" }}
queues:
  # As it says of itself it would start everything at once, and so all jobs prefer it.
  - {{ name: narrow, site: here, storage: here-disk, num_slots: 1000,
      computing_element: {{ max_pilots: 1, options: {{ directory: "{place}/pilots" }} }} }}
  - {{ name: wide, site: there, storage: there-disk, num_slots: 0,
      computing_element: {{ max_pilots: 1, pilot_slots: 4, options: {{ directory: "{place}/pilots" }} }} }}
links: [{{ source: here, destination: there, throughput_1h: 100 }}]
brokerage: {{ storage_min_free: 0 }}
binding: {{ least_gain: 1, run_part: 0 }}
director: {{ period: 0.2 }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 300 }}
timeouts: {{ heartbeat: 60 }}
"""


@pytest.fixture
def house(tmp_path: Path, free_port: int) -> Iterator[House]:
    """A running house."""
    (tmp_path / "here").mkdir()
    for number in range(JOBS):
        (tmp_path / "here" / f"{number}.dat").write_text(f"{number}\n")
    federation = FEDERATION.format(place=tmp_path)
    with running(tmp_path, free_port, federation, "pilots", "there") as house:
        yield house


def submitted(house: House, **spec: Any) -> int:
    base: dict[str, Any] = {"scouts": 0, "walltime": 60}
    (answer,) = house.call("POST", "/tasks", {"tasks": [base | spec]})["tasks"]
    return int(answer["id"])


def finish(house: House, task: int) -> None:
    def is_over() -> bool:
        return bool(house.call("GET", f"/tasks/{task}")["state"] in ("finished", "failed"))

    wait_for(is_over, f"the end of task {task}")
    assert house.call("GET", f"/tasks/{task}")["state"] == "finished"


@pytest.mark.endurance
@pytest.mark.parametrize("binding", ["elastic", "late"])
def test_e2_jobs_that_wait_at_a_narrow_queue_run_at_a_wide_one(house: House, binding: str) -> None:
    # Both have a pilot from the start: else a slow start would leave nothing for it.
    firsts = [submitted(house, name=queue, queues=[queue], command=["true"]) for queue in ("wide", "narrow")]
    for first in firsts:
        finish(house, first)
    read = f"sleep {SECONDS}; cat $(cat inputs.txt) > out.txt"
    task = submitted(
        house,
        name="work",
        command=["sh", "-c", read],
        inputs=[{"storages": ["here-disk"], "glob": "*.dat"}],
        outputs=["out.txt"],
        binding=binding,
    )
    finish(house, task)
    jobs = house.call("GET", f"/tasks/{task}/jobs")["jobs"]
    assert [job["attempt"] for job in jobs] == [1] * JOBS
    ran = Counter(job["queue"] for job in jobs)
    assert set(ran) == {"wide", "narrow"}, "each slot takes what it can"
    taken = next(job for job in jobs if job["queue"] == "wide")
    lines = house.call("GET", f"/jobs/{taken['id']}/explain")["lines"]
    assert any("preferred narrow; taken by wide at" in line for line in lines)
    made = [path.read_text().strip() for path in sorted(house.home.parent.glob("*ere/tasks/**/out.txt"))]
    assert sorted(made, key=int) == [str(number) for number in range(JOBS)]
