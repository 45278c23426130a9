"""All work that could use pilots. Without any, they are withdrawn (see ``withdrawal``)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from pilotage.model.documents.world import TaskQueue
from pilotage.model.records.states import TASKS_TO_SPLIT, UNSTARTED_JOBS, JobState, TaskState
from pilotage.store.database.columns import is_state
from pilotage.store.tables.jobs import is_live, jobs
from pilotage.store.tables.tasks import TASK_COLUMNS, tasks
from pilotage.store.worlds.parts import Reading, part

_j = jobs.c
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
    """Read lines of waiting jobs (without a queue: to be brokered), and a task to split."""
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
