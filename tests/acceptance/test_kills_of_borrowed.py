"""Server or pilots are killed while borrowed jobs start, run and report: each attempt runs once (E2)."""

import itertools
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import make_url

from tests import postgresql
from tests.waiting import PATIENCE, wait_for

from .house import House, running

JOBS, SECONDS = 4, 1.5

FEDERATION = """
name: borrowed
sites: [{{ name: here }}, {{ name: there }}]
storages:
  - {{ name: here-disk, site: here, url: "file://{place}/here", remote_reads: true }}
  - {{ name: there-disk, site: there, url: "file://{place}/there", remote_reads: true }}
queues:
  # As it says of itself it would start everything at once, and so all jobs prefer it.
  - {{ name: narrow, site: here, storage: here-disk, num_slots: 1000,
      computing_element: {{ max_pilots: 1, writable_paths: ["{place}/ledger"],
      options: {{ directory: "{place}/pilots" }} }} }}
  - {{ name: wide, site: there, storage: there-disk, num_slots: 0,
      computing_element: {{ max_pilots: 1, pilot_slots: 2, writable_paths: ["{place}/ledger"],
      options: {{ directory: "{place}/pilots" }} }} }}
links:
  - {{ source: here, destination: there, throughput_1h: 100 }}
  - {{ source: there, destination: here, throughput_1h: 100 }}
brokerage: {{ storage_min_free: 0 }}
binding: {{ default: elastic, least_gain: 0, run_part: 0 }}
director: {{ period: 0.2, failing_pause: 0.5 }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 20 }}
timeouts:
  {{ heartbeat: {silence}, sent: {unanswered}, pilot_created: 15, starting: 60, holding: 60,
    transferring: 60 }}
staging: {{ delivery_timeout: 3, retry_delay: 0.2, max_attempts: 50 }}
"""

PAYLOAD = """
import fcntl, os, pathlib, sys, time
ledger = pathlib.Path(sys.argv[1])
lock = open(ledger / os.environ["PILOTAGE_JOB"], "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    (ledger / "overlaps").touch()
time.sleep(float(sys.argv[2]))
names = pathlib.Path("inputs.txt").read_text().split()
pathlib.Path("out.txt").write_text("".join(pathlib.Path(name).read_text() for name in names))
"""

SILENCE, UNANSWERED = {"server": 120, "pilots": 15}, {"server": 60, "pilots": 6}
"""Seconds after which a pilot is taken for dead, and a payload ends of whose start no report was answered.

A server that takes long to start again must find both.
"""

MOMENTS = {"borrow": 0.0, "start": 0.5, "report": SECONDS + 0.3}
"""Seconds after which something is killed once a borrowed job was seen: it is given, runs, or has ended."""


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, free_port: int, victim: str) -> Iterator[House]:
    """A running house in a directory that also the user of a PostgreSQL server may enter."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-borrowed-"))
    place.chmod(0o755)
    federation = FEDERATION.format(place=place, silence=SILENCE[victim], unanswered=UNANSWERED[victim])
    store, server = "", None
    if request.param == "postgresql":
        server = postgresql.start(place / "postgresql")
        store = make_url(server.get_uri()).set(drivername="postgresql+psycopg").render_as_string(False)
    folders = ("pilots", "here", "there", "ledger")
    try:
        with running(place, free_port, federation, *folders, store=store) as house:
            yield house
    finally:
        if server is not None:
            server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.endurance
@pytest.mark.parametrize("moment", list(MOMENTS))
@pytest.mark.parametrize("victim", ["server", "pilots"])
def test_e2_borrowed_jobs_run_once_whatever_is_killed(house: House, victim: str, moment: str) -> None:
    place = house.home.parent
    _finish(house, _submit(house, name="pilot", queues=["wide"], command=["true"], binding="early"))
    # Half of the inputs are on their way to the preferred queue, half are read from there.
    for number in range(JOBS):
        (place / ("here" if number % 2 else "there") / f"{number}.dat").write_text(f"{number}\n")
    task = _submit(
        house,
        name="work",
        command=["python3", "payload.py", str(place / "ledger"), str(SECONDS)],
        payload_files={"payload.py": PAYLOAD},
        inputs=[{"storages": ["here-disk", "there-disk"], "glob": "*.dat"}],
        outputs=["out.txt"],
        max_attempts=20,
    )
    wait_for(lambda: _borrowed(house, task), "a job that waits is borrowed")
    time.sleep(MOMENTS[moment])
    if victim == "server":
        house.restart("all")
    else:
        _kill_all(house)
    _finish(house, task)
    _check(house, task, place, survives=victim == "server")
    assert not (place / "ledger" / "overlaps").exists(), "attempts of one job ran at the same time"
    wait_for(lambda: _transfers(house) <= {"done", "cancelled"}, "the end of all transfers")


def _submit(house: House, **spec: Any) -> int:
    base: dict[str, Any] = {"scouts": 0, "walltime": 60}
    (answer,) = house.call("POST", "/tasks", {"tasks": [base | spec]})["tasks"]
    return int(answer["id"])


def _jobs(house: House, task: int) -> list[dict[str, Any]]:
    return list(house.call("GET", f"/tasks/{task}/jobs")["jobs"])


def _transfers(house: House) -> set[str]:
    return {transfer["state"] for transfer in house.call("GET", "/transfers")["transfers"]}


def _borrowed(house: House, task: int) -> bool:
    return any(job["queue"] == "wide" for job in _jobs(house, task))


def _finish(house: House, task: int) -> None:
    def is_over() -> bool:
        return bool(house.call("GET", f"/tasks/{task}")["state"] in ("finished", "failed"))

    wait_for(is_over, f"the end of task {task}")
    assert house.call("GET", f"/tasks/{task}")["state"] == "finished"


def _kill_all(house: House) -> None:
    agents = house.agents()
    for agent in agents:
        with suppress(psutil.NoSuchProcess):
            agent.kill()
    psutil.wait_procs(agents, timeout=PATIENCE)


def _check(house: House, task: int, place: Path, survives: bool) -> None:
    """Every job has one output, and a history in which it was taken once an attempt, by one pilot."""
    made = [
        path
        for disk in ("here", "there")
        for path in (place / disk / "tasks/borrowed" / str(task)).rglob("out.txt")
    ]
    assert sorted(path.read_text() for path in made) == [f"{number}\n" for number in range(JOBS)]
    taken = 0
    for job in _jobs(house, task):
        found = house.call("GET", f"/jobs/{job['id']}")
        events = found["events"]
        for before, after in itertools.pairwise(events):
            assert after["source"] == before["target"], events
        sent = Counter(event["attempt"] for event in events if event["target"] == "sent")
        assert set(sent.values()) == {1}, events
        assert sum(event["target"] == "finished" for event in events) == 1
        taken += sum("ends it sooner" in event["cause"] for event in events)
        # A job whose pilot never got the answer is given again; what it began goes on without the server.
        began = {event["attempt"] for event in events if event["target"] == "starting"}
        assert not survives or began == {job["attempt"]}, found["failed_attempts"]
    assert taken > 0
