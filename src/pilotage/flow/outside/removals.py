"""Remove unneeded files from storages: scratch areas of ended attempts, and forgotten copies."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.states import AT_A_PILOT, JobState
from pilotage.model.records.unable_ways import undeletable
from pilotage.model.records.work import Job, Replica
from pilotage.model.rules.timeouts import longest_heartbeat
from pilotage.model.values.paths import is_of_job, is_stored_here, scratch_path, upload_folder
from pilotage.store.transfers.storages import Removal

if TYPE_CHECKING:
    from pilotage.flow.runtime import Runtime

_LEAVE_SOMETHING = (*AT_A_PILOT, JobState.HOLDING, JobState.TRANSFERRING)
"""States of an attempt that may have left files in its scratch area. A pilot that was cut off may run a job
that the server knows as SENT."""


def clear(runtime: "Runtime", world: World, decision: Decision, committed: Committed) -> None:
    """Have the scratch areas of attempts removed after a committed decision ended them.

    Each is removed once more after two leases: a silent pilot may store a file as long as its lease lasts,
    and a slow storage may store it later. A remaining one does no harm: no other attempt uses it.
    """
    queues = {queue.name: queue.storage for queue in world.federation.queues}
    now = world.time
    last = now + 2 * longest_heartbeat(world.federation.timeouts)
    runtime.store.removals.add(
        [
            Removal(
                storage=storage,
                path=scratch_path(world.federation.name, job.id, job.attempt),
                since=now,
                due=now,
                last=last,
            )
            for job in _ended(world, decision, committed)
            if (storage := queues.get(job.queue))
        ]
    )


def remove_copies(runtime: "Runtime", gone: Iterable[Replica], now: float) -> None:
    """Have the bytes of forgotten copies and uploads removed. Originals belong to their owners, and stay."""
    _remove(runtime, (replica for replica in gone if is_stored_here(replica.path)), now)


def remove_files(runtime: "Runtime", gone: Iterable[Replica], now: float) -> None:
    """Have the bytes of forgotten copies, uploads and outputs of tasks removed."""
    removable = (one for one in gone if is_stored_here(one.path) or is_of_job(one.place))
    _remove(runtime, removable, now)


def _remove(runtime: "Runtime", gone: Iterable[Replica], now: float) -> None:
    runtime.store.removals.add(
        [
            Removal(
                storage=replica.storage,
                path=_removed_path(replica),
                file=replica.file,
                since=now,
                due=now,
                last=now,
            )
            for replica in gone
        ]
    )


def _removed_path(replica: Replica) -> str:
    """Return what to remove with a replica: of an upload its folder, which may have an unfinished part."""
    return upload_folder(replica.place) or replica.place


def remove_due(runtime: "Runtime", world: World) -> None:
    """Make the due removals, in the background. A failed one is due again later."""
    storages = {storage.name: storage for storage in world.federation.storages}
    removals, catalogue = runtime.store.removals, runtime.store.catalogue

    def done(removal: Removal, future: "Future[None]") -> None:
        if future.exception() is None:
            removals.done(removal, world.time)

    unable = runtime.deliveries.unable_to_delete(world.federation)
    due_removals = removals.take_due(world.time, undeletable(storages.values(), unable))
    names = sorted({removal.file for removal in due_removals if removal.file})
    there = {
        (at.file, at.storage, _removed_path(at))
        for entry in catalogue.entries(names)
        for at in entry.replicas
    }
    needed = catalogue.in_use(names) if names else set()
    for removal in due_removals:
        if removal.storage not in storages or (removal.file, removal.storage, removal.path) in there:
            # Its storage left the federation, a new copy is there, or the upload is registered.
            removals.done(removal, inf)
        elif removal.file not in needed or upload_folder(removal.path):
            future = runtime.deliveries.remove(storages[removal.storage], removal.path)
            future.add_done_callback(partial(done, removal))


def _ended(world: World, decision: Decision, committed: Committed) -> Iterator[Job]:
    """Yield the jobs, as they were, that failed, were cancelled, or lost their pilot."""
    jobs = {job.id: job for job in world.jobs if job.state in _LEAVE_SOMETHING}
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if (
            isinstance(change, Move)
            and change.kind == "job"
            and change.source in _LEAVE_SOMETHING
            and (change.target in (JobState.FAILED, JobState.CANCELLED) or change.next_attempt)
        ):
            yield from (jobs[id_] for id_ in ids if id_ in jobs)
