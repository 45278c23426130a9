"""A waiting job as other queues' pilots value it (E1 to E3)."""

from collections.abc import Iterable
from math import isfinite

from pilotage.flow.brokerages import requested_binding
from pilotage.flow.runtime import Runtime
from pilotage.model.records.borrowing import Comparison
from pilotage.model.records.spec import Binding
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage import PluginError
from pilotage.policies.pilots.borrowing import offers
from pilotage.store import JobDetails
from pilotage.store.jobs.borrowings import for_queue

MOST_QUEUES = 5
"""Most queues with running pilots to show."""


def said_of(runtime: Runtime, job: JobDetails) -> Binding | None:
    """Return the binding stated by a job's task, VO or brokerage; None if none states one, or the
    brokerage cannot be asked."""
    task = runtime.store.queries.task(job.task)
    if task is None:
        return None
    owner = Identity(name=task.owner, vo=task.vo)
    try:
        return requested_binding(task.spec, owner, runtime.store.federation(), runtime.brokerages)
    except PluginError:
        return None


def comparisons(runtime: Runtime, job: int, queues: Iterable[str]) -> list[Comparison]:
    """Compare a job's queue with others as a match would, from the same world.

    Only the ends of long lines are read.
    """
    names = set(queues)
    if not names:
        return []
    now, snapshots = runtime.begin(1), runtime.store.snapshots
    reports = snapshots.read(now, [for_queue(min(names))]).queue_reports
    running = sorted(report.queue for report in reports if report.running_pilots and report.queue in names)
    comparisons_: list[Comparison] = []
    for name in running[:MOST_QUEUES]:
        world = snapshots.read(now, [for_queue(name)])
        comparisons_ += (
            Comparison(
                queue=name,
                binding=offer.binding,
                gain=offer.prediction.gain if isfinite(offer.prediction.gain) else None,
                needed=offer.needed,
                obstacle=offer.obstacle,
            )
            for offer in offers(world, name)
            if offer.job.id == job
        )
    return comparisons_
