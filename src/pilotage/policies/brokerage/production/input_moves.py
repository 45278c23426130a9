"""Queues that B11 refuses, but where the input may move because waiting for the queues that have it takes
longer."""

from collections.abc import Sequence

import numpy as np

from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.job_groups import MEGABYTE, Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.production.checks.walltime import expected_walltime
from pilotage.policies.brokerage.production.placement import Ledgers


def is_full(group: Group, willing: Mask, ledgers: Ledgers) -> bool:
    """Return whether the share's waiting jobs have reached the limit at every willing queue (Q,) (B36)."""
    ledger = ledgers.of(group.share)
    near = ledger.near[willing]
    return bool((near >= ledger.limit(group).jobs[willing]).all())


def quicker(
    group: Group, row: TaskColumns, willing: Mask, refused: Mask, queues: QueueColumns, ledgers: Ledgers
) -> Mask:
    """Return the refused queues (Q,) where all input can arrive before the last job would start at a willing
    queue.

    There are none if the slots of the ``willing`` queues or the jobs' walltime are unknown.
    """
    wait = _wait(group, row, willing, queues, ledgers)
    quicker_queues = np.zeros(len(queues), dtype=bool)
    if wait > 0:
        storages = queues.storage[refused]
        seconds = {code: _seconds(group, code, queues) for code in set(storages.tolist())}
        quicker_queues[refused] = [seconds[code] < wait for code in storages.tolist()]
    return quicker_queues


def _wait(group: Group, row: TaskColumns, willing: Mask, queues: QueueColumns, ledgers: Ledgers) -> float:
    """Return the seconds until a group's last job would start at the willing queues, given the jobs before
    it."""
    ledger = ledgers.of(group.share)
    slots = ledger.slots[willing]
    total = float(slots.sum())
    if total <= 0:
        return 0.0
    free = np.maximum(slots - ledger.running[willing], 0)
    ahead = float((ledger.near[willing] - free).sum()) + len(group.jobs)
    run: Column = np.broadcast_to(expected_walltime(row.cpu_work, row, queues), (1, len(queues)))[0, willing]
    return max(0.0, ahead) / total * float((run * slots).sum()) / total


def _seconds(group: Group, storage: int, queues: QueueColumns) -> float:
    """Return the seconds to transfer the group's files to a storage; infinite if a link has no measured
    rate."""
    site = int(queues.storage_sites[storage])
    links = queues.links.get(site)
    rates = dict(zip(links.sources.tolist(), links.rates.tolist(), strict=True)) if links else {}
    return sum(
        _seconds_of(size / MEGABYTE, holders, site, rates, queues)
        for holders, _, size in group.together
        if storage not in holders
    )


def _seconds_of(
    megabytes: float, holders: Sequence[int], site: int, rates: dict[int, float], queues: QueueColumns
) -> float:
    sources = {int(queues.storage_sites[code]) for code in holders}
    if site in sources:
        return 0.0
    best = max((rates.get(source, 0.0) for source in sources), default=0.0)
    return megabytes / best if best > 0 else float("inf")
