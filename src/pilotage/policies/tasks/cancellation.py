"""A person cancels a task."""

from collections import defaultdict

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.moves import no_live_job
from pilotage.model.documents.world import World
from pilotage.model.records.states import (
    LIVE_JOBS,
    LIVE_TASKS,
    UNFINISHED_TRANSFERS,
    JobState,
    Kind,
    State,
    TaskState,
    TransferState,
)
from pilotage.model.values.paths import maker
from pilotage.model.values.scopes import name_of

_ENDS: dict[Kind, State] = {
    "task": TaskState.CANCELLED,
    "job": JobState.CANCELLED,
    "transfer": TransferState.CANCELLED,
}


def cancel(world: World, task_id: int, reason: str, only: int | None = None) -> Decision:
    """Cancel a task's live jobs and the transfers of their outputs, then the task, once it has no live job.

    With ``only`` cancel one job. Stored outputs stay: a job that only waits to be merged becomes FINISHED.
    Transfers of inputs stay: jobs of other tasks may wait for them. The commit refuses records that changed
    state since the world was read. Repeat until it refuses none. A task that has ended stays as it is, but
    its remaining records are cancelled.
    """
    live: dict[tuple[Kind, State], list[int]] = defaultdict(list)
    for job in world.jobs:
        if job.task == task_id and job.state in LIVE_JOBS and only in (None, job.id):
            live["job", job.state].append(job.id)
    outputs = {file.name for file in world.files if file.job == only}

    def is_mine(file: str) -> bool:
        return file in outputs if only else maker(world.federation.name, name_of(file)) == task_id

    for transfer in world.transfers:
        if is_mine(transfer.file) and transfer.state in UNFINISHED_TRANSFERS:
            live["transfer", transfer.state].append(transfer.id)
    # Move the task last: its claim requires that the earlier moves have ended all jobs.
    for task in world.tasks:
        if task.id == task_id and task.state in LIVE_TASKS and only is None:
            live["task", task.state].append(task.id)
    moves = tuple(_move(kind, state, ids, world.time, task_id, reason) for (kind, state), ids in live.items())
    return Decision(step="cancel", time=world.time, seed=world.seed, changes=moves)


def _move(kind: Kind, state: State, ids: list[int], time: float, task_id: int, reason: str) -> Move:
    is_stored = kind == "job" and state == JobState.MERGING
    ended = {} if kind == "task" or is_stored else {"ended": time}
    return Move(
        kind=kind,
        ids=tuple(sorted(ids)),
        source=state,
        target=JobState.FINISHED if is_stored else _ENDS[kind],
        cause=reason,
        changes={} if is_stored else {"error": reason, **ended},
        claims=(no_live_job(task_id),) if kind == "task" else (),
    )
