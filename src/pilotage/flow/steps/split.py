"""Tasks are split into jobs."""

from pilotage.flow.step import Pass, take
from pilotage.store import Store
from pilotage.tasks import splitting


def run(store: Store, now: Pass) -> int:
    """Split what was registered; returns how many tasks were."""
    world = store.snapshots.for_split(now.time, now.seed, limit=now.batch)
    return take(store, splitting.split(world), "split")
