"""A person changes fields of a task, for its jobs that have not started and for later ones."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pilotage.model.documents.decision import Decision, Move, Touch, Value
from pilotage.model.documents.moves import FRESH
from pilotage.model.documents.world import World
from pilotage.model.records.job_changes import ChangeNote, merged, noted
from pilotage.model.records.states import JOBS_NOT_STARTED, LIVE_TASKS, JobState, TaskState
from pilotage.model.records.work import Job, Task
from pilotage.model.rules.changed_jobs import changed_columns, in_words, words_of_cause

STEP = "set"

_STAY = (JobState.THROTTLED, JobState.HELD)
"""States that a changed job stays in: it is brokered later anyway."""


def change(world: World, values: Mapping[str, Any], who: str, only: int | None = None) -> Decision:
    """Change fields of the world's one task for its jobs that have not started, or for ``only`` one of them.

    Jobs with a queue are brokered again. Without ``only``, the changes also apply to jobs that are made
    later.
    """
    (task,) = world.tasks
    if task.state not in LIVE_TASKS:
        return Decision(step=STEP, time=world.time, seed=world.seed)
    groups: dict[tuple[Any, ...], list[Job]] = defaultdict(list)
    for job in affected(task, world.jobs, only):
        if columns := changed_columns(task, job, values):
            words = words_of_cause(task, job.changes, job.kind, values)
            groups[job.state, job.changes, words, *columns.items()].append(job)
    moves = [
        _move(jobs, f"changed by {who}: {words}", dict(columns))
        for (_, _, words, *columns), jobs in sorted(groups.items(), key=lambda item: item[1][0].id)
    ]
    touched = task_changes(world, values, who, sum(len(move.ids) for move in moves), only)
    # The task's attempt grows with new jobs: then the commit refuses, and the change is decided again with
    # them.
    note = Touch(
        kind="task",
        ids=(task.id,),
        changes=touched,
        attempts=(task.attempt,),
        changes_read=task.changes,
    )
    notes = [note] if touched else []
    return Decision(step=STEP, time=world.time, seed=world.seed, changes=(*moves, *notes))


def affected(task: Task, jobs: Iterable[Job], only: int | None = None) -> list[Job]:
    """Return the jobs to change.

    A merge job has different needs: it changes alone, or with its task once no other job is left.
    """
    merging = task.state is TaskState.MERGING
    return [
        job
        for job in jobs
        if job.state in JOBS_NOT_STARTED and (job.id == only if only else merging or job.kind != "merge")
    ]


def with_changes(world: World, values: Mapping[str, Any]) -> World:
    """Return the world as if all of its jobs had the changes."""
    if not values:
        return world
    tasks = {task.id: task for task in world.tasks}
    changed = (replace(job, **changed_columns(tasks[job.task], job, values)) for job in world.jobs)  # type: ignore[arg-type]
    return replace(world, jobs=tuple(changed))


def task_changes(
    world: World, values: Mapping[str, Any], who: str, jobs: int, only: int | None = None
) -> dict[str, Value]:
    """Return the columns of the task: the changes for later jobs, and a note of the change and its author.

    The task shows the priority and share of later jobs.
    """
    (task,) = world.tasks
    columns: dict[str, Value] = {}
    if only is None and (text := merged(task.changes, values)) != task.changes:
        columns["changes"] = text
        columns |= {name: values[name] for name in ("priority", "share") if name in values}
    job = next((job for job in world.jobs if job.id == only), None)
    changes, kind = (job.changes, job.kind) if job else (task.changes, "normal")
    if words := in_words(task, changes, kind, values):
        note = ChangeNote(time=world.time, by=who, what=words, jobs=jobs, job=only)
        columns["change_notes"] = noted(task.change_notes, note)
    return columns


def _move(jobs: Iterable[Job], cause: str, columns: Mapping[str, Value]) -> Move:
    """Return the move of jobs in the same state that had the same changes before."""
    ordered = sorted(jobs, key=lambda job: job.id)
    state = ordered[0].state
    return Move(
        kind="job",
        ids=tuple(job.id for job in ordered),
        attempts=tuple(job.attempt for job in ordered),
        source=state,
        target=state if state in _STAY else JobState.DEFINED,
        cause=cause,
        changes={**FRESH, **columns},
        changes_read=ordered[0].changes,
    )
