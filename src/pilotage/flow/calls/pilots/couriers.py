"""A pilot delivers results that another one left in the spool of their queue, if it may run that work (P7).

The attempt still belongs to the pilot that left them: the courier only stores the files.
"""

import logging

from pilotage.agent.files.spool_wire import CourierOrder
from pilotage.agent.wire import JobOrder
from pilotage.flow.calls.pilots.pilot_files import source_of
from pilotage.flow.errors import PilotGone
from pilotage.flow.outside import left_manifests, left_results
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.world import Heartbeat, World
from pilotage.model.records.states import AT_A_PILOT, LIVE_PILOTS
from pilotage.model.records.work import Job, Pilot, Task
from pilotage.model.values.paths import scratch_path
from pilotage.ports.computing import LeftBehind
from pilotage.store.pilots.reports import told_by_pilots

log = logging.getLogger(__name__)


def take(runtime: Runtime, pilot: int, leftover: LeftBehind) -> CourierOrder:
    """Let a pilot deliver results from its spool. The job waits for it from now on.

    The answer is empty if this pilot may not deliver them, or if our pilots did not leave them. Raises
    PilotGone.
    """
    try:
        manifest = left_manifests.read(leftover.manifest.partition("\n")[2])
    except (ValueError, RecursionError):
        return CourierOrder()
    pair = manifest.pair
    world = runtime.world(told_by_pilots([Heartbeat(pilot=pilot, holding=(pair,))]))
    courier = next((courier for courier in world.pilots if courier.state in LIVE_PILOTS), None)
    if courier is None:
        raise PilotGone(pilot)
    job = next((job for job in world.jobs if job.id == pair[0]), None)
    if job is None:
        return CourierOrder()
    if job.attempt != pair[1] or job.state not in AT_A_PILOT:
        return CourierOrder(unwanted=True)
    if not _may_deliver(runtime, world, courier, job):
        return CourierOrder()
    return _order(runtime, world, courier, job, leftover)


def _may_deliver(runtime: Runtime, world: World, courier: Pilot, job: Job) -> bool:
    """Return whether the pilot is one of the same queue that may run the work of the job's owner (P7)."""
    holder = runtime.store.queries.pilot(job.pilot or 0)
    task = next(task for task in world.tasks if task.id == job.task)
    return holder is not None and holder.queue == courier.queue and _may_run(courier, task)


def _may_run(courier: Pilot, task: Task) -> bool:
    if courier.kind == "private":
        return courier.owner == task.owner
    return not task.spec.private_pilots


def _order(runtime: Runtime, world: World, courier: Pilot, job: Job, leftover: LeftBehind) -> CourierOrder:
    holder = runtime.store.queries.pilot(job.pilot or 0)
    queue = next((queue for queue in world.federation.queues if queue.name == job.queue), None)
    if holder is None or queue is None:
        return CourierOrder()
    results, manifest = runtime.store.results_in_spools, leftover.manifest.partition("\n")[2]
    if results.manifest(job.id, job.attempt) is None:
        left_manifests.keep(runtime.store, runtime.clock, queue, holder.broker, holder, [leftover])
    is_real = results.manifest(job.id, job.attempt) == manifest
    if not is_real or not results.give(job.id, job.attempt, courier.id, world.time):
        return CourierOrder()
    log.info("job %d: pilot %d delivers the results of its attempt", job.id, courier.id)
    scratch = scratch_path(world.federation.name, job.id, job.attempt)
    storage = next(storage for storage in world.federation.storages if storage.name == queue.storage)
    return CourierOrder(JobOrder(job.id, job.attempt, scratch), source_of(storage))


def delivered(runtime: Runtime, pilot: int, job: int, attempt: int) -> bool:
    """Accept the report of an attempt after a pilot stored its outputs. Return whether it had this order."""
    results = runtime.store.results_in_spools.carried(job, attempt, pilot)
    if results is None:
        return False
    left_results.accept(runtime, results)
    runtime.store.results_in_spools.done(results)
    return True
