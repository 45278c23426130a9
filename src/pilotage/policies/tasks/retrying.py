"""A person retries the jobs of a task that ended badly. Finished jobs stay."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pilotage.model.documents.decision import Decision, Move, Touch, Value
from pilotage.model.documents.moves import FRESH
from pilotage.model.documents.world import World
from pilotage.model.records.notifications import armed
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import Job, Task
from pilotage.model.rules.changed_jobs import changed_columns, words_of_cause
from pilotage.model.rules.job_rooms import JobRooms
from pilotage.policies.tasks.changing import task_changes
from pilotage.policies.tasks.quotas import Quota

BAD = (JobState.FAILED, JobState.CANCELLED, JobState.CLOSED)
"""States of jobs that may be retried."""

ENDED = (TaskState.FAILED, TaskState.CANCELLED)
"""States of tasks that run again when they are retried."""

CAUSE = "retried by a person"
FINISHED_LATE = "ended with what it has, by a person"
_MAY_HAVE_OUTPUTS = (JobState.CLOSED, JobState.CANCELLED, JobState.FINISHED)
_KEPT = "its task is retried: its outputs are kept"


def retry(
    world: World, only: int | None = None, values: Mapping[str, Any] | None = None, who: str = ""
) -> Decision:
    """Retry the jobs of the world's one task that ended badly, or ``only`` one of them; the task runs again.

    Each becomes its next attempt; earlier attempts do not count. A task without jobs that has predecessors
    waits for them again. A job that left outputs to be merged keeps them. Jobs beyond a quota of live jobs
    wait for room (T). An ended task must fit the quotas of unfinished work. The task moves last: if a part of
    a large decision is lost, the same call can be repeated. Fields in ``values`` change for the retried jobs,
    and without ``only`` for jobs that are made later.
    """
    (task,) = world.tasks
    if task.state is TaskState.FINISHED:
        return Decision(step="retry", time=world.time, seed=world.seed)
    bad = retryable(task, world.jobs)
    finished = _with_outputs(world, task)
    again = [job for job in bad if job.id not in finished and only in (None, job.id)]
    rooms = JobRooms(world.federation.quotas, world.live_jobs)
    free = 0 if rooms.has_backlog(task.owner) else rooms.room(task.owner)
    moves: list[Move | Touch] = [
        *_moves((job for job in world.jobs if job.id in finished), JobState.MERGING, _KEPT, {"error": ""}),
        *_again(task, again[:free], JobState.DEFINED, values or {}, world.federation.quotas),
        *_again(task, again[free:], JobState.THROTTLED, values or {}),
    ]
    columns = task_changes(world, values, who, len(again), only) if values else {}
    if task.state in ENDED:
        moves.append(_continued(task, world, bad, columns))
        limits = Quota(world.federation.quotas, task.owner).limits
        moves = [replace(move, work_limits=limits) for move in moves if isinstance(move, Move)]
    elif columns:
        moves.insert(0, Touch(kind="task", ids=(task.id,), changes=columns, changes_read=task.changes))
    return Decision(step="retry", time=world.time, seed=world.seed, changes=tuple(moves))


def finish(world: World) -> Decision:
    """End the world's one task, which has failed or was cancelled, with what it has: its merge takes that.

    Jobs whose outputs are there wait for the merge again. Those that ended badly stay as they are.
    """
    (task,) = world.tasks
    if task.state not in ENDED:
        return Decision(step="end late", time=world.time, seed=world.seed)
    kept = _with_outputs(world, task)
    continued = Move(
        kind="task",
        ids=(task.id,),
        source=task.state,
        target=TaskState.RUNNING,
        cause=FINISHED_LATE,
        changes={"error": "", "finishing": True, "held": "", "notices": armed(task.spec.notify)},
    )
    jobs = (job for job in world.jobs if job.id in kept)
    moves = (*_moves(jobs, JobState.MERGING, _KEPT, {"error": ""}), continued)
    return Decision(step="end late", time=world.time, seed=world.seed, changes=moves)


def has_something(world: World) -> bool:
    """Return whether a job of the world's one ended task ended well; of one that merges, with outputs."""
    (task,) = world.tasks
    if task.spec.merge:
        return bool(_with_outputs(world, task))
    return any(count.jobs for count in world.task_counts if count.state is JobState.FINISHED)


def retryable(task: Task, jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that ended badly, without failed scouts that other jobs replace."""
    return [
        job
        for job in jobs
        if job.state in BAD and not (job.kind == "scout" and job.state == JobState.FAILED and task.measured)
    ]


def _with_outputs(world: World, task: Task) -> set[int]:
    """Return the jobs of an ended task that had succeeded, and only waited to be merged."""
    if not task.spec.merge or task.state not in ENDED:
        return set()
    makers = {file.job for file in world.files}
    ended = (job for job in world.jobs if job.state in _MAY_HAVE_OUTPUTS and job.kind != "merge")
    return {job.id for job in ended if job.state is JobState.FINISHED or job.id in makers}


def _again(
    task: Task,
    jobs: Iterable[Job],
    target: JobState,
    values: Mapping[str, Any],
    quotas: QuotaConstants | None = None,
) -> Iterable[Move]:
    """Yield moves to the next attempts of jobs, one for all jobs with equal changes."""
    groups: dict[tuple[Any, ...], list[Job]] = defaultdict(list)
    for job in jobs:
        columns = changed_columns(task, job, values) if values else {}
        words = words_of_cause(task, job.changes, job.kind, values) if columns else ""
        groups[words, *columns.items(), ("attempts_before", job.attempt)].append(job)
    for (words, *changed), same in groups.items():
        cause = f"{CAUSE}, with {words}" if words else CAUSE
        yield from _moves(same, target, cause, {**FRESH, **dict(changed)}, quotas)


def _moves(
    jobs: Iterable[Job],
    target: JobState,
    cause: str,
    changes: Mapping[str, Value],
    quotas: QuotaConstants | None = None,
) -> Iterable[Move]:
    by_state: dict[JobState, list[Job]] = defaultdict(list)
    for job in jobs:
        by_state[job.state].append(job)
    for state, state_jobs in sorted(by_state.items()):
        yield Move(
            kind="job",
            ids=tuple(job.id for job in state_jobs),
            attempts=tuple(job.attempt for job in state_jobs),
            source=state,
            target=target,
            cause=cause,
            changes=changes,
            next_attempt=target != JobState.MERGING,
            job_quotas=quotas,
        )


def _continued(task: Task, world: World, jobs: list[Job], columns: Mapping[str, Value]) -> Move:
    """Return the move of an ended task back to a live state."""
    return Move(
        kind="task",
        ids=(task.id,),
        source=task.state,
        target=_target(task, world, jobs),
        cause=CAUSE,
        changes={
            "error": "",
            "finishing": False,
            "notices": armed(task.spec.notify),
            **columns,
        },
    )


def _target(task: Task, world: World, jobs: list[Job]) -> TaskState:
    count = sum(count.jobs for count in world.task_counts if count.task == task.id)
    if not count and task.spec.after:
        return TaskState.WAITING
    # Other jobs replace failed scouts.
    count -= task.measured.failed if task.measured else 0
    if task.measured is None and any(job.kind == "scout" for job in jobs):
        return TaskState.SCOUTING
    if any(job.kind == "merge" for job in jobs):
        return TaskState.MERGING
    return TaskState.RUNNING if count >= task.spec.planned_jobs else TaskState.SPLITTING
