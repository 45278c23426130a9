"""Cancel a task for a person."""

from pilotage.flow.errors import NoSuchTask
from pilotage.flow.runtime import Runtime
from pilotage.flow.unawaited_downloads import give_up
from pilotage.model.decision_parts import parts
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
            return changed + give_up(runtime, inputs)
