"""How far a task is, and what a person can do about it now."""

from collections.abc import Mapping

from pilotage.model.records.states import ENDED, JobState, TaskState
from pilotage.server.web.action_model import ActionLink
from pilotage.store import TaskDetails

_BAD = (JobState.FAILED, JobState.CANCELLED, JobState.CLOSED)
_UNMADE = (TaskState.REGISTERED, TaskState.SCOUTING, TaskState.SPLITTING)
_UNDERWAY = (JobState.FINISHED, JobState.HOLDING, JobState.TRANSFERRING, JobState.MERGING)


def progress(task: TaskDetails) -> Mapping[str, int]:
    """Return the jobs of a task by state, with those that are not made yet."""
    unmade = task.spec.planned_jobs - sum(task.jobs.values()) if task.state in _UNMADE else 0
    jobs = {str(state): count for state, count in task.jobs.items()}
    return {**jobs, **({"not made yet": unmade} if unmade > 0 else {})}


def verbs(task: TaskDetails) -> list[ActionLink]:
    """Return what a person can do about a task now."""
    bad = sum(task.jobs.get(state, 0) for state in _BAD)
    is_live = task.state not in ENDED["task"]
    words = [
        (f"Retry {bad:,} …", "retry", bad and task.state is not TaskState.FINISHED),
        ("Change …", "set", is_live),
        ("Release …", "release", is_live and task.held),
        ("Hold …", "hold", is_live and not task.held),
        ("Finish with what is done …", "finish", _has_results(task)),
        ("Cancel …", "cancel", is_live),
        ("Share …", "grant", True),
        ("Delete …", "delete", not is_live),
    ]
    return [ActionLink(label=label, address=f"/tasks/{task.id}/{verb}") for label, verb, can in words if can]


def _has_results(task: TaskDetails) -> bool:
    """Return whether a task may be finished with its present outputs."""
    if task.state not in ENDED["task"]:
        return any(map(task.jobs.get, _UNDERWAY))
    # Jobs that waited for the merge of a failed task are closed.
    has_kept = bool(task.jobs.get(JobState.FINISHED) or (task.spec.merge and task.jobs.get(JobState.CLOSED)))
    return task.state is not TaskState.FINISHED and has_kept
