"""Two whole servers: what matches at a site of the first is handed to the second, with two sites (M1)."""

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.forwarding.element import ForwardingElement
from pilotage.ports.computing import PilotOrder
from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.conftest import locked_port
from tests.waiting import wait_for

from .house import House

JOBS = 8
FOLDERS = ("near", "far", "home", "hand", "lost", "alpha", "beta", "ledger", "pilots", "forwarders")

NEAR = """
name: near
plugins: {{ "": matchmaking }}
sites:
  - {{ name: home, nucleus: true }}
  - {{ name: beyond, max_jobs: 100 }}
  - {{ name: lost, max_jobs: 100 }}
storages:
  - {{ name: home-disk, site: home, url: "file://{place}/home", storage_min_free: 0 }}
  - {{ name: hand-disk, site: beyond, url: "file://{place}/hand", storage_min_free: 0 }}
  - {{ name: lost-disk, site: lost, url: "file://{place}/lost", storage_min_free: 0 }}
queues:
  - name: beyond-queue
    site: beyond
    storage: hand-disk
    computing_element:
      kind: pilotage
      max_pilots: 4
      options:
        url: "{far}"
        token_file: "{place}/far/token"
        storage: hand
        directory: "{place}/forwarders"
  - name: lost-queue
    site: lost
    storage: lost-disk
    computing_element:
      kind: pilotage
      max_pilots: 1
      options:
        url: "{far}"
        token_file: "{place}/far/token"
        storage: nowhere
        directory: "{place}/forwarders"
brokerage: {{ advertise_period: 1, match_period: 1 }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 5 }}
timeouts: {near_timeouts}
director: {{ period: 0.2, failing_pause: 0.5 }}
staging: {{ delivery_timeout: 3, retry_delay: 0.2, max_attempts: 50 }}
"""

FAR = """
name: far
sites:
  - {{ name: alpha, nucleus: true }}
  - {{ name: beta }}
storages:
  - {{ name: alpha-disk, site: alpha, url: "file://{place}/alpha", storage_min_free: 0 }}
  - {{ name: beta-disk, site: beta, url: "file://{place}/beta", storage_min_free: 0 }}
  - {{ name: hand, site: alpha, url: "file://{place}/hand", storage_min_free: 0 }}
queues:
  - name: alpha-queue
    site: alpha
    storage: alpha-disk
    computing_element:
      max_pilots: 2
      writable_paths: ["{place}/ledger"]
      options: {{ directory: "{place}/pilots" }}
  - name: beta-queue
    site: beta
    storage: beta-disk
    computing_element:
      max_pilots: 2
      writable_paths: ["{place}/ledger"]
      options: {{ directory: "{place}/pilots" }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 3 }}
timeouts: {far_timeouts}
director: {{ period: 0.2, failing_pause: 0.5 }}
staging: {{ delivery_timeout: 3, retry_delay: 0.2, max_attempts: 50 }}
"""

SHORT = {
    "near_timeouts": "{ heartbeat: 12, sent: 20, starting: 60, holding: 30, transferring: 60,"
    " pilot_created: 15 }",
    "far_timeouts": "{ heartbeat: 4, sent: 6, starting: 20, holding: 20, transferring: 30,"
    " pilot_created: 15 }",
}
"""Where something is killed: its death is to be seen soon."""
LONG = dict.fromkeys(SHORT, "{ heartbeat: 60, sent: 60 }")
"""Where nothing is: on a busy machine nothing is taken for dead."""

PAYLOAD = """
import fcntl, os, pathlib, sys, time, zlib
ledger, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
attempt = os.environ["PILOTAGE_FORWARDED"]
with open(ledger / "begun", "a") as begun:
    begun.write(attempt + "\\n")
lock = open(ledger / attempt.partition(".")[0].replace(":", "-"), "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    (ledger / "overlaps").open("a").write(attempt + "\\n")
print("begins", flush=True)
time.sleep(seconds)
with open("sums.txt", "w") as sums:
    for name in open("inputs.txt").read().split():
        assert name.startswith("inputs/data/"), name
        sums.write(f"{pathlib.Path(name).name} {zlib.adler32(pathlib.Path(name).read_bytes())}\\n")
"""


@dataclass
class Pair:
    """The server to which tasks are submitted, and the one behind its site."""

    place: Path
    near: House
    far: House

    def submit(self, seconds: float, jobs: int = 1, **more: Any) -> int:
        """Submit a task of jobs with an input each to the first server."""
        data = self.place / "home" / "data"
        data.mkdir(parents=True, exist_ok=True)
        for number in range(jobs):
            (data / f"file-{number:02}").write_bytes(random.Random(number).randbytes(1000))
        task = {
            "name": "sums",
            "nucleus": "home",
            "command": ["python3", "payload.py", str(self.place / "ledger"), str(seconds)],
            "payload_files": {"payload.py": PAYLOAD},
            "inputs": [{"storages": ["home-disk"], "glob": "data/*"}],
            "outputs": ["sums.txt"],
            "scouts": 0,
            "stations": ["beyond"],
        }
        answer = self.near.call("POST", "/tasks", {"tasks": [task | more]})
        made: int = answer["tasks"][0]["id"]
        return made

    def state(self, task: int) -> str:
        state: str = self.near.call("GET", f"/tasks/{task}")["state"]
        return state

    def job(self, task: int) -> dict[str, Any]:
        """The job of a task, which is there once the task was split."""
        found: list[dict[str, Any]] = wait_for(
            lambda: self.near.call("GET", f"/tasks/{task}/jobs")["jobs"], "the split of the task"
        )
        return found[0]

    def explained(self, task: int) -> str:
        return "\n".join(self.near.call("GET", f"/jobs/{self.job(task)['id']}/explain")["lines"])

    def ended(self, task: int) -> bool:
        return self.state(task) in ("finished", "failed", "cancelled")


@contextmanager
def started(**declared: str) -> Iterator[Pair]:
    """Both servers, started; ``declared`` changes how the first one is."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-forwarding-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        for name in FOLDERS:
            (place / name).mkdir()
        ports = [stack.enter_context(locked_port()) for _ in range(2)]
        values = {"place": place, "far": f"http://127.0.0.1:{ports[1]}"} | LONG | declared
        houses = []
        for name, text, port in zip(("near", "far"), (NEAR, FAR), ports, strict=True):
            (place / f"{name}.yaml").write_text(text.format(**values))
            parts = {"server": (str(place / f"{name}.yaml"),)}
            house = House(
                place / name, f"sqlite:///{place}/{name}/store.db", port, place / f"{name}.yaml", parts
            )
            stack.callback(house.stop)
            house.start("server")
            houses.append(house)
        houses[1].call("GET", "/health")
        pair = Pair(place, *houses)
        try:
            yield pair
        finally:
            print(pair.near.last_words(), pair.far.last_words())  # pytest shows it where the test failed


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Both servers, for all tests that kill neither: they start once."""
    with started() as pair:
        yield pair


def test_m1_a_job_runs_at_a_site_of_the_other_and_explain_shows_both_decisions(pair: Pair) -> None:
    task = pair.submit(1.0)
    wait_for(lambda: pair.ended(task), "the end of the task")
    assert pair.state(task) == "finished", pair.explained(task)
    (made,) = (pair.place / "home" / "tasks" / "near" / str(task)).rglob("sums.txt")
    assert made.read_text().startswith("file-00 ")
    told = pair.explained(task)
    first, mark, second = told.partition("forwarded by queue beyond-queue:")
    assert mark, told
    assert "beyond-queue" in first, told
    hint = f"pilotage explain job:{pair.job(task)['id']} tells what that decided"
    assert hint in "\n".join(pair.near.call("GET", f"/tasks/{task}/explain")["lines"])
    assert "alpha-queue" in second or "beta-queue" in second, told
    logs = pair.near.call("GET", f"/jobs/{pair.job(task)['id']}/logs")["logs"]
    assert [log["parts"][0]["text"] for log in logs if log["stream"] == "stdout"] == ["begins\n"]
    assert not list((pair.place / "hand" / "forwarded" / "near").glob(f"{pair.job(task)['id']}.*"))


def test_m1_forwarders_keep_the_contract_of_computing_elements(pair: Pair) -> None:
    options = {
        "url": pair.far.url,
        "token_file": str(pair.place / "far" / "token"),
        "storage": "hand",
        "directory": str(pair.place / "contract"),
    }
    (pair.place / "contract").mkdir()
    with FakeServer(idle=600).serving() as server:
        orders = [
            PilotOrder(pilot=n, name=f"near-pilot-{n}", token=TOKEN, server_url=server.url, walltime=3600)
            for n in range(1, 4)
        ]
        assert violations(ForwardingElement, options, orders) == []
        several = ForwardingElement(options).submit([replace(orders[0], slots=2)])
        assert "pilot_slots" in several[0].error
    (pair.place / "wrong").write_text("nonsense")
    refused = ForwardingElement(options | {"token_file": str(pair.place / "wrong")}).submit(orders[:1])
    assert "refuses us: 401" in refused[0].error
    nobody = ForwardingElement(options | {"url": "http://127.0.0.1:9"})
    with pytest.raises(OSError, match="cannot be reached"):
        nobody.submit(orders[:1])


def test_m1_cancelling_goes_through(pair: Pair) -> None:
    task = pair.submit(600)
    wait_for(lambda: pair.job(task)["state"] == "running", "the news of the payload's start")
    pair.near.call("POST", f"/tasks/{task}/cancel")
    far = pair.far.call("GET", "/tasks")["tasks"][0]["id"]
    wait_for(lambda: pair.far.call("GET", f"/tasks/{far}")["state"] == "cancelled", "the cancellation")


def test_m1_what_the_other_refuses_is_told_with_its_words(pair: Pair) -> None:
    task = pair.submit(1.0, max_attempts=1, stations=["lost"])
    wait_for(lambda: pair.ended(task), "the end of the task")
    error = pair.job(task)["error"]
    assert "refuses the job" in error, error
    assert "nowhere" in error, error


def test_m1_failures_over_there_come_back_with_their_reasons(pair: Pair) -> None:
    task = pair.submit(1.0, command=["sh", "-c", "echo woe >&2; exit 3"], max_attempts=1)
    wait_for(lambda: pair.ended(task), "the end of the task")
    job = pair.job(task)
    assert (job["state"], job["exit_code"]) == ("failed", 3)
    assert "payload exited with code 3" in job["error"], job
    assert "woe" in job["error"], job


@pytest.mark.endurance
def test_m1_whatever_is_killed_nothing_is_forwarded_twice() -> None:
    """``kill -9`` of both servers and of forwarders; ``PILOTAGE_TEST_SEED`` repeats the moments."""
    seed = int(os.environ.get("PILOTAGE_TEST_SEED", random.SystemRandom().randrange(10**6)))
    print(f"PILOTAGE_TEST_SEED={seed}")
    with started(**SHORT) as pair:
        _survives(pair, random.Random(seed))


def _survives(pair: Pair, dice: random.Random) -> None:
    task = pair.submit(1.0, jobs=JOBS, max_attempts=100)
    victims: dict[str, Callable[[], object]] = {
        "near": lambda: pair.near.restart("server"),
        "far": lambda: pair.far.restart("server"),
        "forwarder": lambda: pair.near.kill_an_agent(dice),
    }
    killed: Counter[str] = Counter()
    while killed.total() < 10 and not pair.ended(task):
        time.sleep(dice.uniform(0.3, 2.5))
        victim = dice.choice(sorted(victims))
        if victims[victim]() is not False:
            killed[victim] += 1
    wait_for(lambda: pair.ended(task), f"the end of the task; killed {killed}")
    assert pair.near.call("GET", f"/tasks/{task}")["jobs"] == {"finished": JOBS}, killed
    begun = Counter((pair.place / "ledger" / "begun").read_text().split())
    assert max(begun.values()) == 1, begun
    assert not (pair.place / "ledger" / "overlaps").exists(), "two attempts of one job ran at a time"
    names = [one["name"] for one in pair.far.call("GET", "/tasks?limit=1000")["tasks"]]
    assert len(names) == len(set(names)), names
    outputs = Counter(path.name for path in (pair.place / "home" / "tasks").rglob("*") if path.is_file())
    assert outputs == {"sums.txt": JOBS}
