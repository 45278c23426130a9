"""Tasks whose scouts have all ended go on; those whose jobs have all ended are merged, finished or failed."""

from pilotage.flow.step import Pass, take
from pilotage.store import Store
from pilotage.tasks import completion, scouting


def run(store: Store, now: Pass) -> int:
    """Complete what can be completed; returns how many records changed."""
    world = store.snapshots.for_completion(now.time, now.seed, limit=now.batch)
    return take(store, scouting.conclude(world), "scout") + take(store, completion.complete(world), "finish")
