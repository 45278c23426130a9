"""Why a task waits, and its place in line."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pilotage.explain import task_waits
from pilotage.flow.calls.places import conditions
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Choice
from pilotage.model.records.states import ENDED, UNSTARTED_JOBS, JobState, TaskState
from pilotage.model.rules import chains
from pilotage.model.rules.likely_ends import LikelyEnd, likely_end
from pilotage.store import TaskDetails

_GOES_ON = (TaskState.SPLITTING, TaskState.RUNNING)
_WAITING = (JobState.PENDING, JobState.DEFINED, *UNSTARTED_JOBS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWait:
    """Why a task waits, how many tasks and jobs of its share come before it, and when it is likely to end.

    ``earliest`` and ``latest`` are in s since 1970; none: nothing is known.
    """

    why: str
    line: str
    share: str
    tasks_ahead: int = 0
    jobs_ahead: int = 0
    end: str = ""
    earliest: float | None = None
    latest: float | None = None


def after(runtime: Runtime, task: TaskDetails) -> str:
    """Return what a task waits for, or is held by, if it comes after other tasks; empty for any other."""
    if task.state is not TaskState.WAITING:
        return ""
    queries = runtime.store.workflow_queries
    before, on_end = queries.predecessors(task.id), queries.is_on_end(task.id)
    bad = None if chains.obstacles(before, on_end) else queries.blocked_by(task.id)
    if bad is not None:
        return chains.why_not_yet(bad)
    return chains.waiting_reason(task.id, before, on_end) or task.error


def is_blocked(runtime: Runtime, task: TaskDetails) -> bool:
    """Return whether a task waits for one that did not finish, at once or through others."""
    return task.state is TaskState.WAITING and runtime.store.workflow_queries.blocked_by(task.id) is not None


def last_refusals(runtime: Runtime, task: TaskDetails) -> Sequence[Choice]:
    """Return the brokerage's newest choice, if jobs of a task are pending after it; else nothing."""
    return runtime.store.queries.task_choices(task.id, 1) if task.jobs.get(JobState.PENDING) else ()


def of_task(runtime: Runtime, task: TaskDetails) -> TaskWait:
    """Return why a task waits; nothing is ahead of one that is held, or has no job to start."""
    if task.state in ENDED["task"]:
        return TaskWait(why="", line="", share=task.share)
    queries = runtime.store.queries
    choices = last_refusals(runtime, task)
    queues = queries.where_jobs_wait(task.id) if task.jobs.get(JobState.ACTIVATED) else []
    last = choices[0] if choices else None
    keyless = bool(conditions.waits_for_key(runtime, task))
    why = task_waits.why(task.state, task.jobs, task.held, last, queues, after(runtime, task), keyless)
    tasks = jobs = 0
    if not task.held and any(task.jobs.get(state) for state in _WAITING):
        tasks, jobs = runtime.store.job_lists.ahead(task.share, task.priority, task.id)
    line = task_waits.line(tasks, jobs, task.share)
    place = TaskWait(why=why, line=line, share=task.share, tasks_ahead=tasks, jobs_ahead=jobs)
    # What no queue takes may wait for ever.
    end = None if last and not last.candidates.queues else end_of(runtime, task, jobs)
    if end is None:
        return place
    now = runtime.clock()
    told = task_waits.likely(end)
    return replace(place, end=told, earliest=now + end.earliest, latest=now + end.latest)


def end_of(runtime: Runtime, task: TaskDetails, ahead: int) -> LikelyEnd | None:
    """Return when a task is likely to end behind so many jobs.

    None if that is unknown: also before its scouts have ended, if it is held, or if it merges.
    """
    if task.state not in _GOES_ON or task.held or task.spec.merge or task.jobs.get(JobState.HELD):
        return None
    if not task.jobs.get(JobState.FINISHED):
        return None
    made = sum(task.jobs.values())
    unmade = max(0, task.spec.planned_jobs - made) if task.state is TaskState.SPLITTING else 0
    waiting = sum(task.jobs.get(state, 0) for state in (*_WAITING, JobState.THROTTLED))
    progress = runtime.store.job_lists.progress(task.id, task.share, runtime.clock())
    return likely_end(replace(progress, waiting=waiting + unmade, ahead=ahead))
