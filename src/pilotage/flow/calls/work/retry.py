"""Retry for a person the jobs of a task that ended badly, and request its unpublished outputs again."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from pilotage.explain.comparison import WhatIf
from pilotage.explain.publications import next_version
from pilotage.flow.calls.data.rescans import rescan
from pilotage.flow.calls.work.changes import Wanted, compared, looked_at, note_fields
from pilotage.flow.calls.work.datasets_kept import refuse_taken_dataset
from pilotage.flow.calls.work.steering import Moved
from pilotage.flow.calls.work.submit import quota_of
from pilotage.flow.calls.work.task_fields import changes_of_jobs
from pilotage.flow.errors import NoSuchTask, NotNow
from pilotage.flow.runtime import Runtime
from pilotage.flow.task_changes import change_task
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.records.publications import is_own
from pilotage.model.records.states import State, TaskState
from pilotage.model.records.work import Job, Task
from pilotage.model.rules.plain_states import task_clause
from pilotage.model.values.scopes import version_of
from pilotage.model.values.step_names import CHAIN
from pilotage.policies.staging import publishing
from pilotage.policies.tasks import retrying
from pilotage.store.files.publications import failed_of
from pilotage.store.jobs.world import jobs_to_retry
from pilotage.store.tasks.work import one_task

_NOTHING = Wanted()


@dataclass(frozen=True, slots=True)
class Effect:
    """How many jobs a verb moved, by their former state, and what a person should know of their inputs."""

    moved: Moved
    lines: tuple[str, ...] = ()


def retry(
    runtime: Runtime, task: int, actor: str, job: int | None = None, edits: Wanted = _NOTHING
) -> Effect:
    """Retry all jobs of a task that ended badly, or one of them, with other values of some fields.

    Their inputs are looked at again, for ``RESCAN_TIME`` s at most, so that jobs can read replaced files.
    Raises ``NoSuchTask``, ``BadDocument`` for the fields, and ``NotNow`` with the reason and a remedy.
    """
    world, jobs, values = _checked(runtime, task, job, edits)
    looked_at(runtime, world.tasks[0], jobs, values, edits, job)
    note_fields(world, values)
    again = rescan(runtime, world.tasks[0], jobs, actor)

    def decide(world: World) -> Decision:
        # Again: the commit refuses jobs if other work has taken their room.
        _check_quota(runtime, world)
        return retrying.retry(world, job, values, actor)

    done = change_task(runtime, task, actor, decide, partial(_check, runtime, job=job), jobs_to_retry)
    runtime.wakeups.wake(CHAIN)
    return Effect(done.moved, tuple(filter(None, [again.describe(task), _version_of_others(runtime, world)])))


def retry_preview(
    runtime: Runtime, task: int, job: int | None = None, edits: Wanted = _NOTHING
) -> tuple[Moved, WhatIf]:
    """Return the jobs that a retry would take, by the state that they ended in, and where they would go.

    Raises as ``retry`` does, but not for want of a queue.
    """
    world, jobs, values = _checked(runtime, task, job, edits)
    moved = Counter[State](record.state for record in jobs)
    return moved, compared(runtime, world.tasks[0], jobs, values)


def _checked(
    runtime: Runtime, task: int, job: int | None, edits: Wanted
) -> tuple[World, list[Job], dict[str, Any]]:
    world = runtime.world(one_task(task), "task_counts", "advertisements", jobs_to_retry)
    if not world.tasks:
        raise NoSuchTask(task)
    _check(runtime, world, job)
    moves = retrying.retry(world, job).moves
    again = {id_ for move in moves if move.kind == "job" and move.next_attempt for id_ in move.ids}
    jobs = [record for record in world.jobs if record.id in again]
    fields = edits.fields
    values = changes_of_jobs(world, jobs, fields) if fields else {}
    return world, jobs, values


def _check(runtime: Runtime, world: World, job: int | None) -> None:
    """Raise ``NotNow`` if there is nothing to retry, or a quota has no room for it."""
    (task,) = world.tasks
    retryable = [record for record in retrying.retryable(task, world.jobs) if job in (None, record.id)]
    if task.state is TaskState.FINISHED:
        raise NotNow(f"task {task.id} finished: submit it again to run it once more")
    if not retryable and not (task.state in retrying.ENDED and (world.task_counts or task.spec.after)):
        raise NotNow(_nothing(task, world, job))
    _check_quota(runtime, world)
    if task.state in retrying.ENDED:
        refuse_taken_dataset(runtime, task)


def _check_quota(runtime: Runtime, world: World) -> None:
    """Raise ``NotNow`` if a task that has ended fits no quota of unfinished work."""
    (task,) = world.tasks
    if task.state in retrying.ENDED:
        faults = quota_of(runtime.store, world.federation, task.owner).take(task.spec)
        if faults:
            raise NotNow("; ".join(text for _, text in faults))


def _version_of_others(runtime: Runtime, world: World) -> str:
    """Return a sentence about the dataset's next version if others have made the last one since, or ""."""
    (task,) = world.tasks
    dataset = task.spec.output_dataset
    version = runtime.store.datasets.version(dataset) if dataset and is_own(dataset) else None
    if not version or task.state not in retrying.ENDED:
        return ""
    return next_version(task.id, version_of(dataset, version.version), version.author)


def _nothing(task: Task, world: World, job: int | None) -> str:
    if job is not None:
        return (
            f"job {job} has not ended badly, so there is nothing to retry: "
            f"pilotage explain job:{job} says how it stands"
        )
    if not world.task_counts:
        return f"task {task.id} has no jobs ({task.error or task.state}): correct it and submit it again"
    state = task_clause(task.state)
    return f"task {task.id} {state}, and no job of it has failed for good: wait for it, or cancel it"


def publish_again(runtime: Runtime, task: int, actor: str) -> int:
    """Request all unpublished outputs of a task. Return how many."""
    count = 0
    # One world holds a limited number. The commit leaves out outputs that another person has requested.
    while True:
        world = runtime.world(failed_of(task))
        if not world.publications:
            return count
        committed = runtime.store.commit(publishing.again(world), actor)
        count += sum(len(ids) for ids in committed.accepted)
