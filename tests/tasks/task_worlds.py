"""Small worlds for the policies about tasks."""

from dataclasses import replace
from typing import Any

from pilotage.model.federation import Federation, Queue, Site, Storage
from pilotage.model.identity import Identity
from pilotage.model.states import JobState, TaskState
from pilotage.model.work import File, Job, Task, TaskSpec
from pilotage.model.world import TaskCount, World

NOW = 5_000_000.0
ALICE = Identity(name="alice", vo="physics", group="users")


def task(id_: int = 1, state: TaskState = TaskState.RUNNING, **spec: Any) -> Task:
    return Task(
        id=id_,
        spec=TaskSpec(name=f"task-{id_}", **spec),
        owner=ALICE,
        state=state,
        created=NOW - 9,
        since=NOW - 9,
    )


def job(id_: int, state: JobState, of: int = 1, **changes: Any) -> Job:
    made = Job(
        id=id_,
        task=of,
        kind="normal",
        share="default",
        priority=500,
        requirements="",
        state=state,
        attempt=1,
        since=NOW - 5,
        created=NOW - 9,
        queue="q1",
    )
    return replace(made, **changes)


def output(job_id: int, of: int = 1) -> File:
    return File(name=f"tasks/test/{of}/{job_id}/a.txt", size=1, checksum="", task=of, job=job_id)


def counts(of: int = 1, **jobs: int) -> tuple[TaskCount, ...]:
    return tuple(TaskCount(task=of, state=JobState(state), jobs=number) for state, number in jobs.items())


def world(**contents: Any) -> World:
    federation = Federation(
        name="test",
        sites=(Site(name="here"),),
        storages=(Storage(name="disk", site="here", url="file:///disk"),),
        queues=(Queue(name="q1", site="here", storage="disk"),),
    )
    return World(**{"time": NOW, "seed": 1, "federation": federation, **contents})
