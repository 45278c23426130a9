"""Cancel a task for a person."""

from pilotage.flow.errors import NoSuchTask
from pilotage.flow.runtime import Runtime
from pilotage.model.parts import parts
from pilotage.staging import unawaited
from pilotage.tasks import cancellation


def cancel(runtime: Runtime, task: int, reason: str, actor: str) -> int:
    """Cancel a task, its live jobs and their transfers; returns how many records changed.

    Downloads that wait for a slot go with it, unless jobs of other tasks wait for them as well (D2). Pilots
    that run its jobs are told so at their next report. Raises :class:`NoSuchTask`.
    """
    changed = 0
    inputs: set[str] = set()
    while True:
        world = runtime.store.snapshots.for_cancel(runtime.clock(), runtime.seeds(), task)
        if not world.tasks:
            raise NoSuchTask(task)
        inputs.update(name for job in world.jobs for name in job.inputs)
        # Records that moved on since the world was read are handed back, and met again where they are now.
        handed_back = 0
        for part in parts(cancellation.cancel(world, task, reason)):
            committed = runtime.store.commit(part, actor)
            changed += sum(len(ids) for ids in committed.accepted)
            handed_back += committed.handed_back
        if not handed_back:
            return changed + _give_up(runtime, inputs)


def _give_up(runtime: Runtime, inputs: set[str]) -> int:
    """Cancel the downloads of these files that nobody waits for; one that moves on meanwhile goes on."""
    if not inputs:
        return 0
    world = runtime.store.snapshots.for_giving_up(runtime.clock(), runtime.seeds(), inputs)
    committed = runtime.store.commit(unawaited.cancel(world), "stage")
    return sum(len(ids) for ids in committed.accepted)
