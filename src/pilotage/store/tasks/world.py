"""Reads of tasks for steps: tasks to split, to complete or to end, and their work."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any

from sqlalchemy import bindparam, func, select

from pilotage.model.documents.world import TaskCount, TaskQueue
from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.spec import SCOUTS
from pilotage.model.records.states import JOBS_AT_WORK, TASKS_TO_SPLIT, UNSTARTED_JOBS, JobState, TaskState
from pilotage.model.records.work import Task
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import JOB_COLUMNS, is_live, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import TASK_COLUMNS, tasks
from pilotage.store.worlds.parts import Reading, WorldPart, part

_t = tasks.c
_LIMIT: Any = bindparam("limit", type_=None)
_LONGEST_FIRST = (
    select(_t.id, _t.state, _t.planned_jobs)
    .where(is_state(tasks, *TASKS_TO_SPLIT), _t.held == "", ~among(_t.id, "apart"))
    .order_by(_t.since, _t.id)
    .limit(_LIMIT)
)


def unsplit_tasks(jobs: float = inf, turn: int = 1) -> WorldPart:
    """Read the longest waiting tasks until they make ``jobs`` jobs together, ``turn`` of each task."""

    def read(reading: Reading) -> Mapping[str, Any]:
        limit = int(min(reading.now.batch, jobs))
        rows = reading.reader.raw_rows(_LONGEST_FIRST, limit=limit, apart=reading.now.apart)
        return {"tasks": reading.reader.tasks(_first(rows, jobs, turn))}

    return WorldPart(("tasks",), read)


def _first(rows: Iterable[tuple[Any, ...]], jobs: float, turn: int) -> list[int]:
    """Return the first tasks that together make that many jobs, by their states and planned jobs."""
    first: list[int] = []
    for task, state, planned in rows:
        if jobs <= 0:
            break
        # An unsplit task may first make only its scouts, usually the default number.
        jobs -= min(planned, SCOUTS if state == TaskState.REGISTERED else turn)
        first.append(task)
    return first


EXAMPLES = 20
"""Failed jobs of a task to read as examples of errors."""

_j, _c = jobs.c, counts.c

_WORKING = (
    select(_c.first)
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_(JOBS_AT_WORK))
    .where(_c.first == _t.id.cast(_c.first.type))
    .group_by(_c.first)
    .having(func.sum(_c.count) > 0)
)
_TO_COMPLETE = (
    select(*TASK_COLUMNS)
    .where(is_state(tasks, TaskState.SCOUTING, TaskState.RUNNING, TaskState.MERGING), ~_WORKING.exists())
    .where(~among(_t.id, "apart"))
    .order_by(_t.id)
    .limit(_LIMIT)
)
_OF_TASKS = among(_j.task, "ids")
_MERGING = is_state(jobs, JobState.MERGING)
_FAILED = (
    select(*JOB_COLUMNS)
    .where(_j.task == bindparam("task"), is_state(jobs, JobState.FAILED))
    .order_by(_j.id)
    .limit(EXAMPLES)
)


@part("tasks")
def tasks_to_complete(reading: Reading) -> Mapping[str, Any]:
    """Read tasks without an active job."""
    now = reading.now
    return {"tasks": reading.reader.tasks_from(_TO_COMPLETE, limit=now.batch, apart=now.apart)}


@part("task_counts", "jobs", "files", "usages")
def ended_jobs(reading: Reading) -> Mapping[str, Any]:
    """Read scouts of scouting tasks with usage and outputs; of other tasks, jobs that end or merge them."""
    return of_tasks(reading.reader, reading["tasks"])


def of_tasks(reader: RecordReader, every_task: Sequence[Task]) -> Mapping[str, Any]:
    """Read the same for some tasks."""
    scouting = [task.id for task in every_task if task.state == TaskState.SCOUTING]
    scouts = reader.jobs_where(_OF_TASKS, ids=scouting) if scouting else ()
    past_scouting = [task for task in every_task if task.state != TaskState.SCOUTING]
    ids = [task.id for task in past_scouting]
    task_counts = reader.task_counts(ids)
    failed = [count.task for count in task_counts if count.state == JobState.FAILED]
    unmerged = reader.jobs_where(_OF_TASKS, _MERGING, ids=ids)
    examples = chain.from_iterable(reader.jobs(_FAILED, task=task) for task in failed)
    return {
        "task_counts": task_counts,
        "jobs": tuple(sorted([*scouts, *unmerged, *examples], key=lambda job: job.id)),
        "files": reader.files_of_tasks([*scouting, *_to_merge(past_scouting, task_counts)]),
        "usages": reader.usages(scouts),
    }


def _to_merge(every_task: Sequence[Task], task_counts: Iterable[TaskCount]) -> list[int]:
    """Return running tasks if all their jobs wait for a merge. Ignore failed scouts that jobs replaced."""
    allowance = {task.id: task.measured.failed if task.measured else 0 for task in every_task}
    unmerged = {
        count.task
        for count in task_counts
        if count.state != JobState.MERGING
        and (count.state != JobState.FAILED or count.jobs > allowance[count.task])
    }
    return [
        task.id
        for task in every_task
        if task.spec.merge and task.state == TaskState.RUNNING and (task.finishing or task.id not in unmerged)
    ]


_PLACED = tuple(map(str, UNSTARTED_JOBS))
_WAITING = (
    select(_j.state, _j.queue, _j.requirements)
    .where(is_live, is_state(jobs, JobState.PENDING, JobState.DEFINED, *UNSTARTED_JOBS))
    .distinct()
)
_TO_MAKE = (
    select(*TASK_COLUMNS)
    .where(is_state(tasks, *TASKS_TO_SPLIT, TaskState.SCOUTING))
    .order_by(tasks.c.id)
    .limit(1)
)


@part("tasks", "task_queues")
def work_to_come(reading: Reading) -> Mapping[str, Any]:
    """Read lines of waiting jobs (without a queue if they wait for the broker), and a task to split."""
    lines = {
        (queue if state in _PLACED else "", requirements)
        for state, queue, requirements in reading.reader.raw_rows(_WAITING)
    }
    return {
        "tasks": reading.reader.tasks_from(_TO_MAKE),
        "task_queues": tuple(
            TaskQueue(queue=queue, requirements=requirements, jobs=1, priority=0)
            for queue, requirements in sorted(lines)
        ),
    }
