"""A person holds a task: none of its jobs starts until it is released. Running jobs are not stopped."""

from collections import defaultdict
from collections.abc import Iterable

from pilotage.model.documents.decision import Decision, Move, Touch
from pilotage.model.documents.moves import FRESH
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_TASKS, UNSTARTED_JOBS, JobState, TaskState
from pilotage.model.records.work import Job
from pilotage.model.values.step_names import BROKER

HOLDABLE = (JobState.PENDING, JobState.DEFINED, *UNSTARTED_JOBS)
"""States of jobs to hold. Throttled jobs are held later, when their quota has room."""


def hold(world: World, who: str) -> Decision:
    """Hold the world's one task for a person, with its jobs that have not started."""
    (task,) = world.tasks
    if task.state not in LIVE_TASKS:
        return _decision(world, "hold")
    touch = Touch(kind="task", ids=(task.id,), changes={"held": who}, event="held")
    return _decision(world, "hold", touch, *_holding_moves(world.jobs, who))


def release(world: World) -> Decision:
    """Release the world's one task: its held jobs are brokered again.

    If it is not held, but waits for predecessors, it accepts any end of them.
    """
    (task,) = world.tasks
    if task.state not in LIVE_TASKS:
        return _decision(world, "release")
    jobs = [job for job in world.jobs if job.state is JobState.HELD]
    is_held = task.held or task.state is not TaskState.WAITING
    changes = {"held": ""} if is_held else {"on_end": True}
    touch = Touch(kind="task", ids=(task.id,), changes=changes, event="released")
    moves = [_move(jobs, JobState.HELD, JobState.DEFINED, "released by a person")] if jobs else []
    return _decision(world, "release", touch, *moves)


def hold_back(world: World) -> Decision:
    """Hold jobs that would be brokered although their task is held: new jobs, and next attempts."""
    holders = {task.id: task.held for task in world.tasks if task.held}
    by_person: dict[str, list[Job]] = defaultdict(list)
    for job in world.jobs:
        if job.task in holders:
            by_person[holders[job.task]].append(job)
    moves = (move for who, jobs in sorted(by_person.items()) for move in _holding_moves(jobs, who))
    return _decision(world, BROKER, *moves)


def _holding_moves(jobs: Iterable[Job], who: str) -> Iterable[Move]:
    by_state: dict[JobState, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.state in HOLDABLE:
            by_state[job.state].append(job)
    for state, state_jobs in sorted(by_state.items()):
        yield _move(state_jobs, state, JobState.HELD, f"held by {who}")


def _move(jobs: Iterable[Job], source: JobState, target: JobState, cause: str) -> Move:
    ordered = sorted(jobs, key=lambda job: job.id)
    return Move(
        kind="job",
        ids=tuple(job.id for job in ordered),
        attempts=tuple(job.attempt for job in ordered),
        source=source,
        target=target,
        cause=cause,
        changes=FRESH,
    )


def _decision(world: World, step: str, *changes: Move | Touch) -> Decision:
    return Decision(step=step, time=world.time, seed=world.seed, changes=changes)
