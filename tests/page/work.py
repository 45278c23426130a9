"""The work that the tests look at: a small federation where something waits, fails, moves and rests."""

import base64
import zlib
from dataclasses import dataclass, replace
from typing import Any

from fastapi.testclient import TestClient

from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Create
from pilotage.model.records.federation import (
    ComputingElement,
    Federation,
    Link,
    Queue,
    Site,
    Storage,
)
from pilotage.model.records.quotas import GlobalShare
from pilotage.model.records.work import File, Replica
from pilotage.store import ShareSample, WorkOf, WorkSample
from pilotage.store.jobs.work_quarters import QUARTER
from tests.api.conftest import ALICE, BOB, House, submit_to

OFFER = {"cores": 64, "memory": 256_000, "walltime": 86_000, "max_jobs": 64}
SCRIPT = "<script>document.title='taken'</script>"
"""Text that must stay text."""

ERROR = "payload exited with code 1\nOSError: [Errno 28] No space left on device: '/scratch/events.root'"
LINES = "\n".join(
    f"event {number:>5}: 12 tracks, 3 vertices, chi2 {number % 7}.{number % 10}" for number in range(40)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Numbers of the tasks and jobs by what they show."""

    waiting: int
    """A task that asks for more memory than any queue has."""
    mixed: int
    """A task with jobs of every kind."""
    script: int
    """A task whose command, error and output are a script."""
    bobs: int
    """A task of Bob's."""
    failed: int
    """A failed job of the mixed task."""
    running: int
    """A running job of it."""
    workflow: int
    """A workflow of four tasks."""


def federation(old: Federation) -> Federation:
    """Return the federation of the tests of the API with a third site, more shares, and links."""
    storage = Storage(name="east-disk", site="east", url="memory://east")
    element = ComputingElement(max_pilots=40)
    queues = (
        *(replace(one, max_memory=8000, num_slots=400) for one in old.queues),
        Queue(
            name="east-queue", site="east", storage="east-disk", max_memory=4000, computing_element=element
        ),
    )
    links = tuple(
        Link(source=one, destination=other, throughput_1h=rate)
        for one, other, rate in (("north", "south", 120.0), ("south", "north", 40.0), ("north", "east", 12.5))
    )
    return replace(
        old,
        sites=(*old.sites, Site(name="east")),
        storages=(*old.storages, storage),
        queues=queues,
        links=links,
        shares=(*old.shares, GlobalShare(name="production", target=70), GlobalShare(name="users", target=30)),
    )


def prepare(house: House) -> Work:
    """Let people submit tasks, and pilots work on some of them."""
    house.store.save_federation(federation(house.store.federation()), "test")
    alice, bob = house.as_("user", ALICE), house.as_("user", BOB)
    spring = {"labels": {"campaign": "spring"}, "share": "production"}
    done = submit(alice, name="calibrate-2026", jobs=6, **spring)
    house.now += 300
    run_well(house, done)
    script = submit(alice, name="with-markup", command=["echo", SCRIPT], jobs=1, max_attempts=1)
    run_script(house, script)
    mixed = submit(
        alice, name="reconstruct-run-4711", jobs=40, outputs=["events.root"], max_attempts=1, **spring
    )
    waiting = submit(alice, name="train-classifier", jobs=120, ram=64_000, share="users")
    bobs = submit(bob, name="bobs-secret-search", jobs=3)
    running, failed = run_mixed(house, mixed)
    trip(house, bob, "bobs-broken-search")
    take(step("broker"), house.runtime, house.runtime.begin(1000))
    house.now += 90
    house.store.add_measurements()
    for hour in range(29 * 24):
        # A night without work, and a share that has used too much lately.
        if hour % 24 not in (3, 4, 5):
            part = 0.9 - 0.4 * ((hour * 7) % 24) / 24 - (0.2 if hour > 100 else 0.0)
            uses = {"production": (part, 0.7), "users": (1 - part, 0.3)}
            samples = [
                ShareSample(share=share, running=round(200 * used), used=used, target=target)
                for share, (used, target) in uses.items()
            ]
            house.store.past.add_sample(samples, house.now - 3600 * hour)
    record_day(house, mixed)
    make_dataset(house, mixed, running)
    workflow = make_workflow(house)
    return Work(
        waiting=waiting,
        mixed=mixed,
        script=script,
        bobs=bobs,
        failed=failed,
        running=running,
        workflow=workflow,
    )


def record_day(house: House, task: int) -> None:
    """Record a day of work, with a quiet night."""
    names: tuple[tuple[WorkOf, str], ...] = (
        ("all", ""),
        ("site", "north"),
        ("person", ALICE.key),
        ("task", str(task)),
    )
    for quarter in range(96):
        running = 0 if 30 < quarter < 50 else 12 + (quarter * 7) % 25
        samples = [
            WorkSample(kind=kind, name=name, running=running, done=running // 3) for kind, name in names
        ]
        house.store.past.add_work(samples, house.now - QUARTER * quarter)


def make_dataset(house: House, task: int, job: int) -> None:
    """Let Alice have a dataset of two files."""
    names = [f"calibrations/run-4711/constants-of-the-inner-tracker-{part}.root" for part in "ab"]
    for name in names:
        file = f"user.alice~atlas:{name}"
        made = (
            File(name=file, size=1_200_000, checksum="adler32:0a0b0c0d", task=task, job=job),
            Replica(file=file, storage="north-disk"),
        )
        house.commit(Create(records=made, cause="made"))
    body = {"dataset": "calibrations", "scope": "user.alice~atlas", "files": names}
    assert house.as_("user", ALICE).post("/datasets", json=body).status_code == 200


def make_workflow(house: House) -> int:
    """Let Alice submit tasks that come after each other; returns their workflow."""
    after = {
        "align": [],
        "call": ["align"],
        "annotate-with-a-rather-long-name": ["align"],
        "report": ["call"],
    }
    tasks = [
        {"name": name, "command": ["true"], "jobs": 3, "after": before} for name, before in after.items()
    ]
    answer = house.as_("user", ALICE).post("/workflows", json={"name": "genome", "tasks": tasks})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def submit(person: TestClient, **fields: Any) -> int:
    return submit_to(person, **({"scouts": 0} | fields))


class BusyPilot:
    """A pilot that has taken jobs of a task at a queue, and reports what happens to them."""

    def __init__(self, house: House, task: int, queue: str = "north-queue", most: int = 64) -> None:
        house.activate(task, queue)
        _, self._client = house.pilot(queue)
        works = self._client.post("/pilot/match", json=OFFER | {"max_jobs": most}).json()["works"]
        taken = [(work["task"], one["job"]) for work in works for one in work["jobs"]]
        self.jobs: list[int] = [job for its_task, job in taken if its_task == task]
        self._held = {job for _, job in taken}

    def report(self, job: int, state: str, log: str = "", **fields: Any) -> None:
        """Report the state of a job, with what it wrote."""
        body: dict[str, Any] = {"holding": [[one, 1] for one in self._held]}
        body["reports"] = [{"job": job, "attempt": 1, "state": state, **fields}]
        if log:
            text = log.encode()
            data = base64.b64encode(zlib.compress(text)).decode()
            stream = {"stream": "stdout", "size": len(text), "head": len(text), "data": data}
            body["logs"] = [{"job": job, "attempt": 1, "logs": [stream]}]
        answer = self._client.post("/pilot/report", json=body)
        assert answer.status_code == 200, answer.text
        if state in ("done", "failed"):
            self._held.remove(job)

    def fail(self, job: int, error: str, log: str) -> None:
        """Let a job fail after ten minutes."""
        self.report(job, "failed", log, error=error, exit_code=1, wall_seconds=600, cpu_seconds=500)


def run_well(house: House, task: int) -> None:
    """Let all jobs of a task end well."""
    pilot = BusyPilot(house, task)
    house.now += 1200
    for job in pilot.jobs:
        pilot.report(job, "done", exit_code=0, wall_seconds=1100 + job, cpu_seconds=900, max_rss=1800)


def run_mixed(house: House, task: int) -> tuple[int, int]:
    """Let jobs of a task end well, fail, run and wait; returns one that runs and one that failed."""
    pilot = BusyPilot(house, task, most=30)
    house.now += 1800
    for job in pilot.jobs[:12]:
        output = {"name": "events.root", "size": 1_250_000_000 + job, "checksum": f"adler32:{job:08x}"}
        used: dict[str, Any] = {
            "wall_seconds": 1700,
            "cpu_seconds": 1500,
            "max_rss": 1900,
            "max_workdir": 1250,
        }
        pilot.report(job, "done", exit_code=0, outputs=[output], **used)
    for job in pilot.jobs[12:15]:
        pilot.fail(job, ERROR, LINES)
    for job in pilot.jobs[15:]:
        pilot.report(job, "running", LINES)
    return pilot.jobs[15], pilot.jobs[12]


def run_script(house: House, task: int) -> int:
    """Let a job fail with a script as its error and its output; returns it."""
    pilot = BusyPilot(house, task)
    pilot.fail(pilot.jobs[0], SCRIPT, SCRIPT)
    return pilot.jobs[0]


def trip(house: House, person: TestClient, name: str) -> tuple[int, int]:
    """Let five jobs of a task fail within seconds at the south queue, which trips its breakers (F2).

    Returns the task and a job.
    """
    task = submit(person, name=name, jobs=5, max_attempts=1)
    pilot = BusyPilot(house, task, "south-queue")
    for job in pilot.jobs:
        error = "the payload cannot be started: OSError: disk 7"
        pilot.report(job, "failed", "mount: /scratch: cannot read superblock\n", error=error, wall_seconds=1)
    return task, pilot.jobs[0]
