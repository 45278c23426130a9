"""A person cancels a task."""

from pilotage.store import Store
from pilotage.tasks import cancellation

from .errors import NoSuchTask
from .step import new_seed, take


def cancel(store: Store, task: int, reason: str, actor: str, now: float) -> int:
    """Cancel a task, its live jobs and their transfers; returns how many records changed.

    Pilots that run its jobs are told so at their next report. Raises :class:`NoSuchTask`.
    """
    world = store.snapshots.for_cancel(now, new_seed(), task)
    if not world.tasks:
        raise NoSuchTask(task)
    return take(store, cancellation.cancel(world, task, reason), actor)
