"""Build single records. Each is complete and valid, and keyword arguments change its fields."""

from dataclasses import replace
from typing import Any

from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import JobState, PilotState, TaskState, TransferState
from pilotage.model.records.work import (
    File,
    Job,
    JobKind,
    Pilot,
    Replica,
    Requirements,
    Task,
    TaskSpec,
    Transfer,
)
from pilotage.model.values.identity import GENERIC, Identity

NOW = 1_700_000_000.0
"""The time of every world built here, in s since 1970 UTC."""

HOUR = 3600.0
"""An hour in s."""

ALICE = Identity(name="alice", vo="atlas", group="higgs")
BOB = Identity(name="bob", vo="cms")


def task(
    number: int = 1, state: TaskState = TaskState.RUNNING, *, owner: Identity = ALICE, **spec: Any
) -> Task:
    """Return a task that requests only the given fields of its ``TaskSpec``."""
    return Task(
        id=number,
        spec=TaskSpec(**{"name": f"task-{number}", **spec}),
        owner=owner,
        state=state,
        created=NOW - 2 * HOUR,
        since=NOW - HOUR,
    )


def requirements(owner: Identity = ALICE, **changes: Any) -> str:
    """Return the requirements of a task queue: one core, 1000 MB and 36,000 HS23 s unless changed."""
    default = Requirements(
        vo=owner.vo, group=owner.group, owner=owner.name, cores=1, memory=1000, cpu_time=36_000
    )
    return replace(default, **changes).text


_USUAL = requirements()


def job(number: int = 1, state: JobState = JobState.ACTIVATED, of: int = 1, **changes: Any) -> Job:
    """Return a job of task ``of``: at queue ``Q``, or at none while it is DEFINED or PENDING."""
    usual: dict[str, Any] = {
        "id": number,
        "task": of,
        "kind": "normal",
        "share": "default",
        "priority": 500,
        "requirements": _USUAL,
        "state": state,
        "attempt": 1,
        "since": NOW - HOUR,
        "created": NOW - 2 * HOUR,
        "queue": "" if state in (JobState.DEFINED, JobState.PENDING) else "Q",
    }
    return Job(**usual | changes)


def jobs(
    of: Task, count: int = 1, *, first: int = 1, kind: JobKind = "normal", inputs: tuple[str, ...] = ()
) -> tuple[Job, ...]:
    """Return DEFINED jobs of a task, numbered from ``first``, which wait for the brokerage."""
    first_job = job(
        first,
        JobState.DEFINED,
        of.id,
        kind=kind,
        share=of.spec.share,
        priority=of.spec.priority,
        requirements=Requirements.of(of.spec, of.owner).text,
        inputs=inputs,
    )
    return tuple(replace(first_job, id=number) for number in range(first, first + count))


def pilot(number: int = 1, state: PilotState = PilotState.RUNNING, **changes: Any) -> Pilot:
    """Return a generic pilot of one core in queue ``Q``, with its last heartbeat a minute ago."""
    usual: dict[str, Any] = {
        "id": number,
        "queue": "Q",
        "requirements": _USUAL,
        "kind": "generic",
        "owner": GENERIC,
        "cores": 1,
        "memory": 1000,
        "walltime": 172_800,
        "state": state,
        "created": NOW - 600,
        "since": NOW - 300,
        "reference": "batch-1",
        "heartbeat": NOW - 60,
    }
    return Pilot(**usual | changes)


def request(pilot: int = 1, **changes: Any) -> MatchRequest:
    """Return a generic pilot's request for one job, with one core and no limit of memory."""
    usual: dict[str, Any] = {
        "pilot": pilot,
        "queue": "Q",
        "kind": "generic",
        "owner": GENERIC,
        "cores": 1,
        "memory": 0,
        "walltime": 172_000,
        "max_jobs": 1,
    }
    return MatchRequest(**usual | changes)


def transfer(number: int, state: TransferState, **changes: Any) -> Transfer:
    """Return a download from storage ``north-a`` to ``east`` (see ``three_sites``)."""
    usual: dict[str, Any] = {
        "id": number,
        "file": f"file{number}",
        "source": "north-a",
        "destination": "east",
        "direction": "download",
        "share": "_default-download",
        "priority": 25,
        "state": state,
        "attempt": 1,
        "created": NOW - 10,
        "since": NOW - 10,
    }
    return Transfer(**usual | changes)


def file(name: str, job: int | None = None) -> File:
    """Return a file of ten bytes: an input, or the output of a job."""
    return File(name=name, size=10, checksum="adler32:00000001", job=job)


def output_file(job: int, of: int = 1) -> File:
    """Return the output of a finished job, under its final name."""
    return File(name=f"tasks/test/{of}/{job}/a.txt", size=1, checksum="", task=of, job=job)


def replica(name: str, storage: str) -> Replica:
    """Return a copy of a file at a storage."""
    return Replica(file=name, storage=storage)
