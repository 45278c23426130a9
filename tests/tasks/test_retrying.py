"""Where a retried task goes on."""

from dataclasses import replace

import pytest

from pilotage.model.documents.decision import Move
from pilotage.model.documents.world import TaskCount
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import Measured
from pilotage.policies.tasks.retrying import retry
from pilotage.testing import jobs, task, world


@pytest.mark.parametrize(
    ("failed_scouts", "target"), [(0, TaskState.RUNNING), (1, TaskState.SPLITTING), (3, TaskState.SPLITTING)]
)
def test_jobs_that_replace_failed_scouts_leave_others_to_be_made(
    failed_scouts: int, target: TaskState
) -> None:
    """Ten jobs are planned and ten were made, some of which do the work of scouts that failed."""
    measured = Measured(finished=1, failed=failed_scouts)
    ended = replace(task(1, jobs=10, command=("run",)), state=TaskState.CANCELLED, measured=measured)
    bad = [replace(job, state=JobState.CANCELLED) for job in jobs(ended, 10)]
    here = replace(
        world(tasks=(ended,), jobs=tuple(bad)),
        task_counts=(TaskCount(task=1, state=JobState.CANCELLED, jobs=10),),
    )
    (move,) = (one for one in retry(here).changes if isinstance(one, Move) and one.kind == "task")
    assert move.target is target
