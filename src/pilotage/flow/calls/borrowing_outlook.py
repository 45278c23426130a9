"""A waiting job as the pilots of other queues judge it (E1 to E3)."""

from collections.abc import Iterable
from math import isfinite

from pilotage.brokerage import PluginError
from pilotage.flow.matching.bindings import said
from pilotage.flow.runtime import Runtime
from pilotage.model.records.borrowing import Comparison
from pilotage.model.records.spec import Binding
from pilotage.model.values.identity import Identity
from pilotage.pilots.borrowing import offers
from pilotage.store import JobDetails
from pilotage.store.worlds.borrowings import for_queue

MOST_QUEUES = 5
"""Queues, of those with running pilots, whose view of a job is told."""


def said_of(runtime: Runtime, job: JobDetails) -> Binding | None:
    """The binding that a job's task, VO or brokerage says; None where none does, or cannot be asked."""
    task = runtime.store.queries.task(job.task)
    if task is None:
        return None
    owner = Identity(name=task.owner, vo=task.vo)
    try:
        return said(task.spec, owner, runtime.store.federation(), runtime.brokerages)
    except PluginError:
        return None


def comparisons(runtime: Runtime, job: int, queues: Iterable[str]) -> list[Comparison]:
    """Compare as the matches do, from the same world; of lines that are long only the tails are looked at."""
    names = set(queues)
    if not names:
        return []
    now, snapshots = runtime.begin(1), runtime.store.snapshots
    reports = snapshots.read(now, [for_queue(min(names))]).queue_reports
    running = sorted(report.queue for report in reports if report.running_pilots and report.queue in names)
    found: list[Comparison] = []
    for name in running[:MOST_QUEUES]:
        world = snapshots.read(now, [for_queue(name)])
        found += (
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
    return found
