"""What has waited too long, or whose pilot has gone silent, moves on (rules T)."""

import logging

from pilotage.model.decision import Committed, Decision, Move
from pilotage.model.states import JobState
from pilotage.model.world import World
from pilotage.staging import movers
from pilotage.staging.settle import scratch_path
from pilotage.store import Store
from pilotage.watchdog import timeouts

from .step import Pass

log = logging.getLogger(__name__)

_LEFT_BEHIND = (JobState.STARTING, JobState.RUNNING, JobState.HOLDING)
"""States of an attempt that may have left something in its scratch area."""


def run(store: Store, now: Pass) -> int:
    """Move on what is due; returns how many records changed."""
    world = store.snapshots.for_watch(now.time, now.seed, limit=now.batch)
    decision = timeouts.watch(world)
    if not decision.changes:
        return 0
    committed = store.commit(decision, "watch")
    _clear_scratch(world, decision, committed)
    return sum(len(ids) for ids in committed.accepted)


def _clear_scratch(world: World, decision: Decision, committed: Committed) -> None:
    """Remove what lost attempts left at their sites; what cannot be removed is only in the way of nobody."""
    jobs = {job.id: job for job in world.jobs if job.state in _LEFT_BEHIND}
    queues = {queue.name: queue.storage for queue in world.federation.queues}
    storages = {storage.name: storage for storage in world.federation.storages}
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if not isinstance(change, Move) or change.kind != "job" or change.source not in _LEFT_BEHIND:
            continue
        for job in (jobs[id_] for id_ in ids if id_ in jobs):
            storage = storages.get(queues.get(job.queue, ""))
            if storage is None:
                continue
            try:
                movers.remove(storage, scratch_path(job.id, job.attempt))
            except movers.StorageError as error:
                log.warning("job %d: its scratch area is left: %s", job.id, error)
