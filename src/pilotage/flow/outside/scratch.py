"""Remove what failed attempts left in their scratch areas."""

from typing import TYPE_CHECKING

from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.values.paths import scratch_path

if TYPE_CHECKING:
    from pilotage.flow.runtime import Runtime

_LEAVE_SOMETHING = (JobState.STARTING, JobState.RUNNING, JobState.HOLDING, JobState.TRANSFERRING)
"""States of an attempt that may have left something in its scratch area."""


def clear(runtime: "Runtime", world: World, decision: Decision, committed: Committed) -> None:
    """Remove the scratch areas of the attempts that a committed decision ended, in the background.

    A remaining one disturbs nobody: no other attempt uses it.
    """
    jobs = {job.id: job for job in world.jobs if job.state in _LEAVE_SOMETHING}
    queues = {queue.name: queue.storage for queue in world.federation.queues}
    storages = {storage.name: storage for storage in world.federation.storages}
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if not isinstance(change, Move) or change.kind != "job" or change.target is not JobState.FAILED:
            continue
        for job in (jobs[id_] for id_ in ids if id_ in jobs):
            storage = storages.get(queues.get(job.queue, ""))
            if storage is not None:
                path = scratch_path(world.federation.name, job.id, job.attempt)
                runtime.deliveries.remove(storage, path)
