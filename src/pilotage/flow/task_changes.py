"""Change one task for a person: decide and commit again until the commit accepts the whole change."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage.flow.errors import NoSuchTask
from pilotage.flow.outside.removals import clear
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.decision_parts import parts
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState, State
from pilotage.model.records.work import Job
from pilotage.store.tasks.work import live_work_of, one_task
from pilotage.store.worlds.parts import WorldPart


@dataclass(slots=True)
class TaskChange:
    """How many records changed, how many jobs moved, by their former state, and the jobs that were read."""

    records: int = 0
    moved: Counter[State] = field(default_factory=Counter)
    jobs: dict[int, Job] = field(default_factory=dict)


def change_task(
    runtime: Runtime,
    task: int,
    actor: str,
    decide: Callable[[World], Decision],
    check: Callable[[World], None] = lambda _: None,
    reads: WorldPart | None = None,
) -> TaskChange:
    """Change a task by a policy, which sees its live work unless it ``reads`` something else.

    If records have changed since the world was read, the policy decides again about their new state.
    ``check`` sees the first world, and raises if the change is not allowed. Raises ``NoSuchTask``.
    """
    done = TaskChange()
    is_first = True
    while True:
        world = runtime.world(one_task(task), "task_counts", reads or live_work_of(task))
        if not world.tasks:
            raise NoSuchTask(task)
        if is_first:
            check(world)
        is_first = False
        done.jobs |= {job.id: job for job in world.jobs}
        handed_back = 0
        for part in parts(decide(world)):
            committed = runtime.store.commit(part, actor)
            clear(runtime, world, part, committed)
            done.records += sum(len(ids) for ids in committed.accepted)
            done.moved += jobs_moved(part, committed)
            handed_back += committed.handed_back
        if not handed_back:
            return done


def jobs_moved(decision: Decision, committed: Committed) -> Counter[State]:
    """Return how many jobs a decision moved, by their former state. Jobs that only wait for a merge
    do not count."""
    moved: Counter[State] = Counter()
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if (
            isinstance(change, Move)
            and change.kind == "job"
            and change.target is not JobState.MERGING
            and ids
        ):
            moved[change.source] += len(ids)
    return moved
