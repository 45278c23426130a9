"""States of tasks as TES names them: one table."""

from collections.abc import Mapping
from enum import StrEnum

from pilotage.model.records.states import LIVE_TASKS, JobState, TaskState

SETUP_FAILED = 125
"""The exit code of programs for containers, and of our script, if no executor has begun."""


class TesState(StrEnum):
    """The states of TES 1.1."""

    UNKNOWN = "UNKNOWN"
    QUEUED = "QUEUED"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETE = "COMPLETE"
    EXECUTOR_ERROR = "EXECUTOR_ERROR"
    SYSTEM_ERROR = "SYSTEM_ERROR"
    CANCELED = "CANCELED"
    PREEMPTED = "PREEMPTED"
    CANCELING = "CANCELING"


OF_JOBS: Mapping[JobState, TesState] = {
    **dict.fromkeys((JobState.THROTTLED, JobState.PENDING, JobState.DEFINED), TesState.QUEUED),
    **dict.fromkeys((JobState.ASSIGNED, JobState.ACTIVATED, JobState.FAILED), TesState.QUEUED),
    JobState.HELD: TesState.PAUSED,
    **dict.fromkeys((JobState.SENT, JobState.STARTING), TesState.INITIALIZING),
    JobState.RUNNING: TesState.RUNNING,
    **dict.fromkeys((JobState.HOLDING, JobState.TRANSFERRING, JobState.MERGING), TesState.RUNNING),
    **dict.fromkeys((JobState.FINISHED, JobState.CANCELLED, JobState.CLOSED), TesState.RUNNING),
}
"""The state of a live task by that of its job. A failed job of a live task is tried again."""

STATES_BEFORE: Mapping[TesState, TaskState] = {
    TesState.COMPLETE: TaskState.FINISHED,
    TesState.CANCELED: TaskState.CANCELLED,
    TesState.EXECUTOR_ERROR: TaskState.FAILED,
    TesState.SYSTEM_ERROR: TaskState.FAILED,
}
"""The state of an ended task, by its state in TES."""

NEVER = frozenset({TesState.UNKNOWN, TesState.PREEMPTED, TesState.CANCELING})
"""States that no task is in."""


def state_of(state: TaskState, held: str, job: JobState | None, exit_code: int | None) -> TesState:
    """Return the state of a task in TES, by that of its job, if it has one."""
    if state is TaskState.FINISHED:
        return TesState.COMPLETE
    if state is TaskState.CANCELLED:
        return TesState.CANCELED
    if state not in LIVE_TASKS:
        of_executor = exit_code is not None and exit_code > 0 and exit_code != SETUP_FAILED
        return TesState.EXECUTOR_ERROR if of_executor else TesState.SYSTEM_ERROR
    shown = OF_JOBS[job] if job else TesState.QUEUED
    return TesState.PAUSED if held and shown is TesState.QUEUED else shown
