"""Merge, finish or fail tasks after all their jobs have ended."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.moves import task_failed
from pilotage.model.documents.world import World
from pilotage.model.records.job_changes import for_merges
from pilotage.model.records.publications import NewPublication
from pilotage.model.records.states import JOBS_AT_WORK, JobState, TaskState
from pilotage.model.records.work import File, Job, NewJob, Requirements, Task
from pilotage.model.rules.work_budget import FILES, WorkBudget

FINISH = "finish"
"""The step that decides by this policy."""

_ENDED_BADLY = (JobState.FAILED, JobState.CANCELLED, JobState.CLOSED)
_NOTHING_TO_MERGE = "nothing to merge: its jobs left no outputs"


def complete(world: World) -> Decision:
    """Merge, finish or fail every running or merging task without a job at work.

    If all outputs are optional and no job left any, the task finishes without a merge. FAILED jobs have
    failed for good: jobs with an attempt left are brokered again in the commit that failed them. Only a
    person who cancels a task cancels jobs, so a task with cancelled jobs becomes CANCELLED. A task without
    counted jobs stays as it is.
    """
    counts: dict[int, Counter[JobState]] = defaultdict(Counter)
    for count in world.task_counts:
        counts[count.task][count.state] += count.jobs
    for task in world.tasks:
        # Other jobs did the work of failed scouts.
        counts[task.id][JobState.FAILED] -= task.measured.failed if task.measured else 0
    jobs, files = _by_task(world)
    ended: dict[JobState, list[int]] = defaultdict(list)
    moves: list[Move] = []
    work = WorkBudget()
    finished: dict[TaskState, list[Task]] = defaultdict(list)
    for task in sorted(world.tasks, key=lambda task: task.id):
        if not _is_over(task, counts[task.id]):
            continue
        work.spend(task.id, FILES, len(files[task.id]))
        error = _error(task, counts[task.id], jobs[task.id], files[task.id])
        waiting = [job.id for job in jobs[task.id] if job.state == JobState.MERGING]
        if error:
            # A job that left its outputs is done, even if its task fails; without them it runs again.
            ended[JobState.CLOSED if error == _NOTHING_TO_MERGE else JobState.FINISHED] += waiting
        if error and counts[task.id][JobState.CANCELLED]:
            moves.append(_cancelled(task, error))
        elif error:
            moves.append(task_failed(task, "cannot be completed", error))
        elif files[task.id] and task.spec.merge and task.state == TaskState.RUNNING:
            moves.append(_merged(task, files[task.id]))
        else:
            ended[JobState.FINISHED] += waiting
            finished[task.state].append(task)
    moves.extend(_finished(world.time, state, tasks) for state, tasks in sorted(finished.items()))
    changes = (*_jobs_moves(ended), *moves)
    return Decision(step=FINISH, time=world.time, seed=world.seed, changes=changes)


def _by_task(world: World) -> tuple[dict[int, list[Job]], dict[int, list[File]]]:
    """Return each task's jobs, and the outputs of jobs that wait for merging, in order.

    A failed scout may have left outputs too.
    """
    jobs: dict[int, list[Job]] = defaultdict(list)
    files: dict[int, list[File]] = defaultdict(list)
    for job in sorted(world.jobs, key=lambda job: job.id):
        jobs[job.task].append(job)
    waiting = {job.id for job in world.jobs if job.state == JobState.MERGING}
    for file in sorted(world.files, key=lambda file: file.name):
        if file.task is not None and file.job in waiting:
            files[file.task].append(file)
    return jobs, files


def _is_over(task: Task, counts: Counter[JobState]) -> bool:
    """Return whether no job of the task is active, and its outputs can be judged."""
    split = task.state in (TaskState.RUNNING, TaskState.MERGING)
    if not split or any(counts[state] for state in JOBS_AT_WORK):
        return False
    bad = sum(counts[state] for state in _ENDED_BADLY) if task.finishing else 0
    only_waiting = counts.total() - bad == counts[JobState.MERGING]
    return counts.total() > 0 and not (task.state == TaskState.MERGING and only_waiting)


def _error(task: Task, counts: Counter[JobState], jobs: Sequence[Job], files: Sequence[File]) -> str:
    """Return why the task fails, with one job's error as example; empty if it does not fail."""
    if task.finishing and counts[JobState.FINISHED if task.state == TaskState.MERGING else JobState.MERGING]:
        return ""  # a person ended it early, and it has outputs: merged ones if it was merging
    if task.finishing and not task.spec.merge and counts[JobState.FINISHED]:
        return ""
    if any(counts[state] for state in _ENDED_BADLY):
        failed = (job for job in jobs if job.state == JobState.FAILED)
        example = next((job for job in failed if job.kind != "scout" or not task.measured), None)
        # Include failed scouts that other jobs replaced, as the task's counts do.
        excused = task.measured.failed if task.measured else 0
        total = counts.total() + excused
        error = _ended_badly(
            counts[JobState.FAILED], counts[JobState.CANCELLED] + counts[JobState.CLOSED], total
        )
        if excused:
            scouts = "1 failed scout" if excused == 1 else f"{excused} failed scouts"
            error = f"{error}, besides {scouts} that other jobs replaced"
        if example is None:
            return error
        called = "job" if example.kind == "normal" else f"{example.kind} job"
        return f"{error}; {called} {example.id}: {example.error}"
    if task.spec.merge and task.state == TaskState.RUNNING and not files and not _may_leave_nothing(task):
        return _NOTHING_TO_MERGE
    return ""


def _ended_badly(failed: int, cancelled: int, total: int) -> str:
    """Return ``2 of 10 jobs failed and 3 were cancelled``."""
    subject = "its only job" if total == 1 else f"{failed or cancelled} of {total} jobs"
    if not failed:
        return f"{subject} {'was' if cancelled == 1 else 'were'} cancelled"
    more = f" and {cancelled} {'was' if cancelled == 1 else 'were'} cancelled" if cancelled else ""
    return f"{subject} failed{more}"


def _may_leave_nothing(task: Task) -> bool:
    """Return whether its jobs may succeed without an output. Then the task may too, without a merge job."""
    return set(task.spec.outputs) <= set(task.spec.optional_outputs)


def _merged(task: Task, files: Sequence[File]) -> Move:
    changes = for_merges(task.changes, task.spec)
    spec = task.changed(changes, "merge").expected("merge")
    job = NewJob(
        task=task.id,
        kind="merge",
        share=spec.share,
        priority=spec.priority,
        requirements=Requirements.of(spec, task.owner).text,
        changes=changes,
        inputs=tuple(file.name for file in files),
    )
    return Move(
        kind="task",
        ids=(task.id,),
        source=TaskState.RUNNING,
        target=TaskState.MERGING,
        cause="every job's output is there",
        next_attempt=True,
        creates={task.id: (job,)},
        changes_read=task.changes,
    )


def _cancelled(task: Task, error: str) -> Move:
    """Return the move of a task that a person is cancelling, if its last job has ended."""
    return Move(
        kind="task",
        ids=(task.id,),
        source=task.state,
        target=TaskState.CANCELLED,
        cause="it was cancelled",
        changes={"error": error},
    )


def _finished(time: float, state: TaskState, tasks: Sequence[Task]) -> Move:
    """Return the move of finished tasks, with requests to close their output datasets."""
    closed = {
        task.id: (NewPublication(task=task.id, dataset=task.spec.output_dataset, asked=time),)
        for task in tasks
        if task.spec.output_dataset
    }
    return Move(
        kind="task",
        ids=tuple(task.id for task in tasks),
        source=state,
        target=TaskState.FINISHED,
        cause="every job finished",
        creates=closed,
    )


def _jobs_moves(ended: dict[JobState, list[int]]) -> list[Move]:
    return [
        Move(kind="job", ids=tuple(ids), source=JobState.MERGING, target=target, cause="its task ended")
        for target, ids in sorted(ended.items())
        if ids
    ]
