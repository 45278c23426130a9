"""Remove what ended attempts left in their scratch areas."""

from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.states import AT_A_PILOT, JobState
from pilotage.model.records.work import Job
from pilotage.model.rules.timeouts import longest_heartbeat
from pilotage.model.values.paths import scratch_path
from pilotage.store.tables.scratch_removals import Place

if TYPE_CHECKING:
    from pilotage.flow.runtime import Runtime

_LEAVE_SOMETHING = (*AT_A_PILOT, JobState.HOLDING, JobState.TRANSFERRING)
"""States of an attempt that may have left something in its scratch area. A pilot that was cut off may run
what the server only knows as sent."""


def clear(
    runtime: "Runtime", world: World, decision: Decision, committed: Committed, told_by_pilots: bool = False
) -> None:
    """Let :func:`remove_due` remove the scratch areas of the attempts that a committed decision ended.

    Unless pilots told of the ends, a pilot may store a file as long as its lease lasts: remove such an area
    only then. Each is removed once more after two leases, because a slow storage may store a file late. A
    remaining one disturbs nobody: no other attempt uses it.
    """
    queues = {queue.name: queue.storage for queue in world.federation.queues}
    lease = longest_heartbeat(world.federation.timeouts)
    runtime.store.scratch_removals.add(
        (
            (
                (storage, scratch_path(world.federation.name, job.id, job.attempt)),
                world.time + (lease if job.state in AT_A_PILOT and not told_by_pilots else 0),
            )
            for job in _ended(world, decision, committed)
            if (storage := queues.get(job.queue))
        ),
        world.time,
        world.time + 2 * lease,
    )


def remove_due(runtime: "Runtime", world: World) -> None:
    """Remove scratch areas in the background. One that is not removed is due again later."""
    storages = {storage.name: storage for storage in world.federation.storages}
    removals = runtime.store.scratch_removals

    def done(place: Place, future: "Future[None]") -> None:
        if future.exception() is None:
            removals.done(place, world.time)

    for place in removals.due(world.time):
        name, path = place
        if name in storages:
            future = runtime.deliveries.remove(storages[name], path)
            future.add_done_callback(partial(done, place))
        else:
            removals.done(place, inf)


def _ended(world: World, decision: Decision, committed: Committed) -> Iterator[Job]:
    """Yield the jobs, as they were, whose attempt failed, was cancelled, or was taken from its pilot."""
    jobs = {job.id: job for job in world.jobs if job.state in _LEAVE_SOMETHING}
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if (
            isinstance(change, Move)
            and change.kind == "job"
            and change.source in _LEAVE_SOMETHING
            and (change.target in (JobState.FAILED, JobState.CANCELLED) or change.next_attempt)
        ):
            yield from (jobs[id_] for id_ in ids if id_ in jobs)
