"""Whatever is killed, at whatever moment: the task finishes, each output exists once, no attempts overlap."""

import functools
import itertools
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests import postgresql
from tests.waiting import wait_for

from .house import House

JOBS = 40
KILLS = 14

NAME = "kills"
FEDERATION = """
name: kills
sites:
  - {{ name: north, nucleus: true }}
  - {{ name: east }}
  - {{ name: west }}
storages:
  - {{ name: north-disk, site: north, url: "file://{storages}/north", storage_min_free: 0 }}
  - {{ name: east-disk, site: east, url: "file://{storages}/east", storage_min_free: 0 }}
  - {{ name: west-disk, site: west, url: "file://{storages}/west", storage_min_free: 0 }}
queues:
{queues}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 3 }}
timeouts: {{ heartbeat: 6, sent: 6, starting: 20, holding: 20, transferring: 30, pilot_created: 15 }}
director: {{ period: 0.2, failing_pause: 0.5 }}
staging: {{ delivery_timeout: 3, retry_delay: 0.2, max_attempts: 50 }}
"""

QUEUE = """
  - name: {site}-queue
    site: {site}
    storage: {site}-disk
    computing_element:
      max_pilots: 2
      pilot_slots: 2
      writable_paths: ["{ledger}"]
      options: {{ directory: "{pilots}" }}
"""

PAYLOAD = """
import fcntl, os, pathlib, sys, time, zlib
ledger = pathlib.Path(sys.argv[1])
job = os.environ["PILOTAGE_JOB"]
lock = open(ledger / job, "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    with open(ledger / "overlaps", "a") as overlaps:
        overlaps.write(job + "\\n")
time.sleep(1.5)
names = [line.strip() for line in open("inputs.txt") if line.strip()]
with open("sums.txt", "w") as sums:
    for name in names:
        sums.write(f"{pathlib.Path(name).name} {zlib.adler32(pathlib.Path(name).read_bytes())}\\n")
"""

MERGE = """
import pathlib
lines = [line for path in pathlib.Path("inputs").rglob("sums.txt") for line in path.read_text().splitlines()]
pathlib.Path("merged.txt").write_text("\\n".join(sorted(lines)) + "\\n")
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that also the user of a PostgreSQL server may enter."""
    directory = Path(tempfile.mkdtemp(prefix="pilotage-kills-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.endurance
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_task_survives_kills_at_random_moments(database: str, place: Path, free_port: int) -> None:
    """``kill -9`` of server, loop, agents and database; ``PILOTAGE_TEST_SEED`` repeats the moments."""
    seed = int(os.environ.get("PILOTAGE_TEST_SEED", random.SystemRandom().randrange(10**6)))
    print(f"PILOTAGE_TEST_SEED={seed}")
    dice = random.Random(seed)
    victims: dict[str, Callable[[], object]] = {}
    store = f"sqlite:///{place}/store.db"
    server = None
    if database == "postgresql":
        server = postgresql.start(place / "postgresql")
        store = make_url(server.get_uri()).set(drivername="postgresql+psycopg").render_as_string(False)
    house = _house(place, store, free_port)
    expected = _inputs(place)
    try:
        for name in house.parts:
            house.start(name)
            victims[name] = functools.partial(house.restart, name)
        victims["agent"] = lambda: house.kill_an_agent(dice)
        if server is not None:
            victims["database"] = functools.partial(postgresql.restart_after_kill, server)
        task = house.call("POST", "/tasks", {"tasks": [_task(place)]})["tasks"][0]["id"]
        killed = _kill(house, task, victims, dice)
        wait_for(lambda: _ended(house, task), f"the end of the task; killed {killed}")
        _check(house, task, place, expected, killed)
    except BaseException:
        print(house.last_words())
        raise
    finally:
        house.stop()
        if server is not None:
            server.cleanup()


def _house(place: Path, store: str, port: int) -> House:
    for name in ("home", "pilots", "ledger", "storages/north", "storages/east", "storages/west"):
        (place / name).mkdir(parents=True)
    federation = place / "federation.yaml"
    queues = "".join(
        QUEUE.format(site=site, pilots=place / "pilots", ledger=place / "ledger")
        for site in ("north", "east", "west")
    )
    federation.write_text(FEDERATION.format(storages=place / "storages", queues=queues))
    rest = "split,broker,lift,provision,finish,watch"
    parts = {"server": (str(federation), "--only", rest), "loop": ("--no-api", "--only", "stage")}
    return House(place / "home", store, port, federation, parts)


def _inputs(place: Path) -> list[str]:
    """Two small files a job, at two of the sites only; returns the lines that the merged output must have."""
    from zlib import adler32

    lines = []
    for number in range(2 * JOBS):
        data = random.Random(number).randbytes(2000 + number)
        storage = place / "storages" / ("east" if number % 2 else "west")
        (storage / "data").mkdir(exist_ok=True)
        (storage / "data" / f"file-{number:03}").write_bytes(data)
        lines.append(f"file-{number:03} {adler32(data)}")
    return sorted(lines)


def _task(place: Path) -> dict[str, object]:
    return {
        "name": "sums",
        "nucleus": "north",
        "command": ["python3", "payload.py", str(place / "ledger")],
        "payload_files": {"payload.py": PAYLOAD, "merge.py": MERGE},
        "inputs": [{"storages": ["east-disk", "west-disk"], "glob": "data/*"}],
        "files_per_job": 2,
        "outputs": ["sums.txt"],
        "merge": {"command": ["python3", "merge.py"], "outputs": ["merged.txt"]},
        "max_attempts": 100,
    }


def _kill(
    house: House, task: int, victims: dict[str, Callable[[], object]], dice: random.Random
) -> list[str]:
    killed: list[str] = []
    while len(killed) < KILLS and not _ended(house, task):
        time.sleep(dice.uniform(0.1, 2.0))
        victim = dice.choice(sorted(victims))
        if victims[victim]() is not False:
            killed.append(victim)
    return killed


def _ended(house: House, task: int) -> bool:
    return house.call("GET", f"/tasks/{task}")["state"] in ("finished", "failed", "cancelled")


def _check(house: House, task: int, place: Path, expected: list[str], killed: list[str]) -> None:
    print(f"killed {len(killed)}: {dict(Counter(killed))}")
    found = house.call("GET", f"/tasks/{task}")
    assert found["state"] == "finished", (found, killed)
    assert found["jobs"] == {"finished": JOBS + 1}
    north = place / "storages" / "north"
    outputs = Counter(path.name for path in (north / "tasks" / NAME / str(task)).rglob("*") if path.is_file())
    assert outputs == {"sums.txt": JOBS, "merged.txt": 1}
    (merged,) = (north / "tasks" / NAME / str(task)).rglob("merged.txt")
    assert merged.read_text().splitlines() == expected
    assert not (place / "ledger" / "overlaps").exists(), "attempts of one job ran at the same time"
    for job in house.call("GET", f"/tasks/{task}/jobs?limit=1000")["jobs"]:
        events = house.call("GET", f"/jobs/{job['id']}")["events"]
        assert sum(event["target"] == "finished" for event in events) == 1
        for before, after in itertools.pairwise(events):
            assert after["source"] == before["target"], events
