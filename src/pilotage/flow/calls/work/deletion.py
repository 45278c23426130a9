"""Delete tasks that have ended, the copies that they alone used, and if asked their outputs."""

from collections.abc import Sequence

from pilotage.flow.errors import NotNow
from pilotage.flow.outside.removals import remove_files
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Decision, Forget
from pilotage.model.records.states import TaskState
from pilotage.model.records.work import Replica
from pilotage.model.rules.plain_states import task_clause
from pilotage.store.commit.deletion import NotEnded, TaskFiles

DELETE = "delete"
"""The step of its decisions, and who makes them: what a person registered is not counted by them."""


def plan(runtime: Runtime, tasks: Sequence[int], outputs: bool) -> TaskFiles:
    """Return what the deletion of tasks would remove from storages. Raises ``NotNow``."""
    _check(runtime, tasks)
    return runtime.store.deletion.files(tasks, outputs)


def delete(runtime: Runtime, tasks: Sequence[int], outputs: bool) -> TaskFiles:
    """Delete tasks, and return what is removed from storages. Raises ``NotNow``.

    A copy stays if it is the last replica of its file, or if jobs of another task have read it. An output
    stays if a dataset has it, or if a job reads it.
    """
    planned = plan(runtime, tasks, outputs)
    deletion = runtime.store.deletion
    names: list[str] = []
    # Files that a task came to read a moment ago stay, and are returned again.
    while outputs and (going := deletion.outputs(tasks))[0] != names:
        names, replicas = going
        _forget(runtime, Forget(replicas=tuple(replicas), files=tuple(names), if_unwanted=True))
    copies: list[Replica] = []
    while (unread := deletion.copies(tasks)) != copies:
        copies = unread
        _forget(runtime, Forget(replicas=tuple(copies), if_unwanted=True, if_unread=True))
    try:
        deletion.delete(tasks)
    except NotEnded as error:
        raise _refusal(error) from error
    return planned


def _check(runtime: Runtime, tasks: Sequence[int]) -> None:
    try:
        runtime.store.deletion.check(tasks)
    except NotEnded as error:
        raise _refusal(error) from error


def _refusal(error: NotEnded) -> NotNow:
    if error.waiting:
        return NotNow(f"task {error.waiting} waits for task {error.task}: pilotage cancel {error.waiting}")
    state = task_clause(TaskState(error.state))
    return NotNow(f"task {error.task} {state}: cancel it first, pilotage cancel {error.task}")


def _forget(runtime: Runtime, change: Forget) -> None:
    """Forget replicas, and have the bytes of those removed that are gone."""
    now = runtime.clock()
    decision = Decision(step=DELETE, time=now, seed=runtime.seeds(), changes=(change,))
    runtime.store.commit(decision, DELETE)
    names = sorted({replica.file for replica in change.replicas})
    there: set[Replica] = {
        replica for entry in runtime.store.catalogue.entries(names) for replica in entry.replicas
    }
    remove_files(runtime, [replica for replica in change.replicas if replica not in there], now)
