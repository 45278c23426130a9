"""A person cancels a task."""

from pilotage.flow.errors import NoSuchTask
from pilotage.flow.step import new_seed
from pilotage.store import Store
from pilotage.tasks import cancellation


def cancel(store: Store, task: int, reason: str, actor: str, now: float) -> int:
    """Cancel a task, its live jobs and their transfers; returns how many records changed.

    Pilots that run its jobs are told so at their next report. Raises :class:`NoSuchTask`.
    """
    changed = 0
    while True:
        world = store.snapshots.for_cancel(now, new_seed(), task)
        if not world.tasks:
            raise NoSuchTask(task)
        # What moved on since the world was read is handed back, and met again where it is now.
        committed = store.commit(cancellation.cancel(world, task, reason), actor)
        changed += sum(len(ids) for ids in committed.accepted)
        if not committed.handed_back:
            return changed
