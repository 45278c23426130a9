"""Calls of a person about a running task: hold it, release it, or end it with its results so far."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from pilotage.flow.errors import NoSuchTask, NotNow
from pilotage.flow.runtime import Runtime
from pilotage.flow.task_cancellation import let_go
from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.decision_parts import parts
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_TASKS, JobState, State
from pilotage.model.records.work import Task
from pilotage.model.values.step_names import SPLIT
from pilotage.store.worlds.work_of_tasks import live_work_of, one_task
from pilotage.tasks import finishing, holding

_INSTEAD = "what has ended is retried (pilotage retry), or submitted again"
_ENDED_WELL = (JobState.HOLDING, JobState.TRANSFERRING, JobState.MERGING, JobState.FINISHED)

Moved = Mapping[State, int]
"""Jobs that a verb moved, by the state that they were in."""

Verb = Callable[[Runtime, int, str], Moved]
"""What a person does to a task: the runtime, the task, and the person as an actor."""


def jobs_moved(decision: Decision, committed: Committed) -> Counter[State]:
    """Count the jobs that a decision moved, by the state that they were in."""
    found: Counter[State] = Counter()
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move) and change.kind == "job" and ids:
            found[change.source] += len(ids)
    return found


def hold(runtime: Runtime, task: int, who: str) -> Moved:
    """Hold a task: no job of it starts; returns the jobs that wait for the release, by their state before.

    Raises :class:`NoSuchTask`, and :class:`NotNow` where it has ended or is held.
    """

    def check(found: Task, _: World) -> None:
        if found.held:
            raise NotNow(f"task {task} is held by {found.held} already: pilotage release {task}")

    return _steer(runtime, task, who, check, partial(holding.hold, who=who))


def release(runtime: Runtime, task: int, who: str) -> Moved:
    """Release a held task; returns the jobs that are brokered again, by their state before.

    Raises :class:`NoSuchTask`, and :class:`NotNow` where it has ended or is not held.
    """

    def check(found: Task, _: World) -> None:
        if not found.held:
            raise NotNow(f"task {task} is not held: pilotage explain {task} says why its jobs wait")

    released = _steer(runtime, task, who, check, holding.release)
    runtime.wakeups.wake(SPLIT)
    return released


def finish(runtime: Runtime, task: int, who: str) -> Moved:
    """End a task with its results so far. Return the closed jobs, by their state before.

    Raises :class:`NoSuchTask`, and :class:`NotNow` where it has ended or no job of it ended well.
    """

    def check(_: Task, world: World) -> None:
        if not any(count.jobs for count in world.task_counts if count.state in _ENDED_WELL):
            raise NotNow(f"no job of task {task} has ended well, so it has nothing: pilotage cancel {task}")

    before = runtime.world(one_task(task), "task_counts", live_work_of(task)).jobs
    closed = _steer(runtime, task, who, check, finishing.finish)
    let_go(runtime, before, who)
    return closed


def _steer(
    runtime: Runtime,
    task: int,
    actor: str,
    check: Callable[[Task, World], None],
    decide: Callable[[World], Decision],
) -> Moved:
    """Decide and commit until nothing is handed back; returns the jobs that moved, by their state before."""
    moved: Counter[State] = Counter()
    is_first = True
    while True:
        world = runtime.world(one_task(task), "task_counts", live_work_of(task))
        if not world.tasks:
            raise NoSuchTask(task)
        (found,) = world.tasks
        if is_first:
            if found.state not in LIVE_TASKS:
                raise NotNow(f"task {task} is {found.state}: {_INSTEAD}")
            check(found, world)
        is_first = False
        handed_back = 0
        for part in parts(decide(world)):
            committed = runtime.store.commit(part, actor)
            moved += jobs_moved(part, committed)
            handed_back += committed.handed_back
        if not handed_back:
            return moved
