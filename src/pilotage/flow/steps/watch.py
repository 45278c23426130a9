"""What has waited too long, or whose pilot has gone silent, moves on (rules T)."""

from pilotage.flow import scratch
from pilotage.flow.step import Pass
from pilotage.store import Store
from pilotage.watchdog import timeouts


def run(store: Store, now: Pass) -> int:
    """Move on what is due; returns how many records changed."""
    world = store.snapshots.for_watch(now.time, now.seed, limit=now.batch)
    decision = timeouts.watch(world)
    if not decision.changes:
        return 0
    committed = store.commit(decision, "watch")
    scratch.clear(world, decision, committed)
    return sum(len(ids) for ids in committed.accepted)
