"""A person ends a task early: the outputs so far are merged, and the remaining jobs are closed."""

from collections import defaultdict

from pilotage.model.documents.decision import Decision, Move, Touch
from pilotage.model.documents.world import World
from pilotage.model.records.states import JOBS_AT_WORK, LIVE_TASKS, JobState, TaskState
from pilotage.model.records.work import Job

CAUSE = "a person ended its task early"
_NOT_SPLIT = (TaskState.SCOUTING, TaskState.SPLITTING)
_ALMOST_DONE = (JobState.HOLDING, JobState.TRANSFERRING)


def finish(world: World) -> Decision:
    """Close the unfinished jobs of the world's one task, and let ``finish`` end it.

    Jobs with a successful payload still store their outputs. No further jobs are made.
    """
    (task,) = world.tasks
    if task.state not in LIVE_TASKS:
        return Decision(step="end early", time=world.time, seed=world.seed)
    at_work: dict[JobState, list[Job]] = defaultdict(list)
    for job in world.jobs:
        if job.state in JOBS_AT_WORK and job.state not in _ALMOST_DONE and job.kind != "merge":
            at_work[job.state].append(job)
    changes: list[Move | Touch] = [
        Touch(kind="task", ids=(task.id,), changes={"finishing": True, "held": ""}),
        *(
            Move(
                kind="job",
                ids=tuple(sorted(job.id for job in jobs)),
                source=state,
                target=JobState.CLOSED,
                cause=CAUSE,
                changes={"ended": world.time},
            )
            for state, jobs in sorted(at_work.items())
        ),
    ]
    if task.state in _NOT_SPLIT:
        changes.append(
            Move(kind="task", ids=(task.id,), source=task.state, target=TaskState.RUNNING, cause=CAUSE)
        )
    return Decision(step="end early", time=world.time, seed=world.seed, changes=tuple(changes))
