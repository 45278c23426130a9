"""Calls of a person about a running task: hold it, release it, or end it with its results so far."""

from collections.abc import Mapping
from functools import partial

from pilotage.flow.calls.work.datasets_kept import refuse_taken_dataset
from pilotage.flow.errors import NotNow
from pilotage.flow.runtime import Runtime
from pilotage.flow.task_cancellation import let_go
from pilotage.flow.task_changes import change_task
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_TASKS, JobState, State, TaskState
from pilotage.model.records.work import Task
from pilotage.model.rules.chains import awaited, waiting_reason
from pilotage.model.rules.plain_states import task_clause
from pilotage.model.values.step_names import CHAIN, SPLIT
from pilotage.policies.tasks import finishing, holding, retrying
from pilotage.store.jobs.world import jobs_to_retry

_INSTEAD = "what has ended is retried (pilotage retry), or submitted again"
_ENDED_WELL = (JobState.HOLDING, JobState.TRANSFERRING, JobState.MERGING, JobState.FINISHED)

Moved = Mapping[State, int]
"""How many jobs a verb moved, by their former state."""


def hold(runtime: Runtime, task: int, who: str) -> Moved:
    """Hold a task: no job of it starts. Return how many jobs wait for the release, by their former state.

    Raises ``NoSuchTask``, and ``NotNow`` if it has ended or is held.
    """

    def check(world: World) -> None:
        (record,) = world.tasks
        _live(record)
        if record.held:
            raise NotNow(f"task {task} is held by {record.held} already: pilotage release {task}")

    return change_task(runtime, task, who, partial(holding.hold, who=who), check).moved


def release(runtime: Runtime, task: int, who: str) -> Moved:
    """Release a held task. Return how many jobs are brokered again, by their former state.

    A task held because an earlier one failed starts with the inputs that exist. Raises ``NoSuchTask``, and
    ``NotNow`` if it has ended or is not held.
    """

    def check(world: World) -> None:
        (record,) = world.tasks
        _live(record)
        if record.state is TaskState.WAITING and not record.held:
            _all_ended(runtime, record)
        elif not record.held:
            raise NotNow(f"task {task} is not held: pilotage explain {task} says why its jobs wait")

    released = change_task(runtime, task, who, holding.release, check)
    runtime.wakeups.wake(CHAIN)
    runtime.wakeups.wake(SPLIT)
    return released.moved


def finish(runtime: Runtime, task: int, who: str) -> Moved:
    """End a task with its results so far, also a failed one.

    Return how many jobs it closed, by their former state.

    Raises ``NoSuchTask``, and ``NotNow`` where it has finished or no job of it ended well.
    """
    details = runtime.store.queries.task(task)
    if details is not None and details.state in retrying.ENDED:
        return change_task(
            runtime, task, who, retrying.finish, partial(_check_late, runtime), jobs_to_retry
        ).moved

    def check(world: World) -> None:
        _live(world.tasks[0])
        if not any(count.jobs for count in world.task_counts if count.state in _ENDED_WELL):
            raise NotNow(f"no job of task {task} has ended well, so it has nothing: pilotage cancel {task}")

    closed = change_task(runtime, task, who, finishing.finish, check)
    let_go(runtime, closed.jobs.values(), who)
    return closed.moved


def _check_late(runtime: Runtime, world: World) -> None:
    """Raise ``NotNow`` if a task that failed or was cancelled has nothing to end with."""
    (task,) = world.tasks
    if not retrying.has_something(world):
        raise NotNow(f"no job of task {task.id} has ended well, so it has nothing: pilotage retry {task.id}")
    refuse_taken_dataset(runtime, task)


def _all_ended(runtime: Runtime, task: Task) -> None:
    """Raise ``NotNow`` if a task waits for others that have not ended."""
    before = runtime.store.workflow_queries.predecessors(task.id)
    if awaited(before):
        end = f"pilotage finish {awaited(before)[0].task} ends that with what it has"
        raise NotNow(f"task {task.id} {waiting_reason(task.id, before, on_end=True)}; {end}")


def _live(task: Task) -> None:
    if task.state not in LIVE_TASKS:
        raise NotNow(f"task {task.id} {task_clause(task.state)}: {_INSTEAD}")
