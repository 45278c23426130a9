"""Resources that an ARC service offers, read from its GLUE2 description (P8)."""

from collections.abc import Iterator, Mapping
from typing import Any

from pilotage.ports.computing import PilotSize

CLOSED = ("closed", "draining")
"""States of a share that accepts no new jobs."""

RUNNING_JOBS = ("RunningJobs", "LocalRunningJobs", "SuspendedJobs", "LocalSuspendedJobs")
WAITING_JOBS = ("WaitingJobs", "LocalWaitingJobs", "PreLRMSWaitingJobs")
"""Counts of a share's jobs: those that came through ARC, and the cluster's own."""

MOST_DIGITS = 12


def slots(service: Mapping[str, Any]) -> int | None:
    """Return the slots of the batch system behind the service; None if it publishes none."""
    counts = [number(manager, "TotalSlots") for manager in _all(service.get("ComputingManager"))]
    totals = [count for count in counts if count is not None]
    return sum(totals) if totals else None


def population(service: Mapping[str, Any], queue: str) -> tuple[int, int] | None:
    """Return everybody's running and waiting jobs in a queue or, without a name, in all.

    They came through ARC or from the cluster's own users. Return None if the service publishes no such
    counts. Several shares, one for each VO, may lead to the same queue of the batch system.
    """
    queues: dict[str, tuple[int, int]] = {}
    for share in _all(service.get("ComputingShare")):
        name = str(share.get("MappingQueue") or share.get("Name"))
        counts = {key: number(share, key) for key in (*RUNNING_JOBS, *WAITING_JOBS)}
        if queue in ("", name, share.get("Name")) and any(count is not None for count in counts.values()):
            running = sum(counts[key] or 0 for key in RUNNING_JOBS)
            waiting = sum(counts[key] or 0 for key in WAITING_JOBS)
            largest = queues.get(name, (0, 0))
            queues[name] = (max(largest[0], running), max(largest[1], waiting))
    if not queues:
        return None
    return sum(running for running, _ in queues.values()), sum(waiting for _, waiting in queues.values())


def resources(service: Mapping[str, Any], queue: str, size: PilotSize) -> int | None:
    """Return how many pilots of a size the service would run side by side, in one queue or, without a name,
    in any.

    Return None if the service publishes no shares yet, as just after its start. Values that a share or a node
    does not publish limit nothing.
    """
    shares = list(_all(service.get("ComputingShare")))
    if not shares:
        return None
    if not any(_takes(share, queue, size) for share in shares):
        return 0
    managers = list(_all(service.get("ComputingManager")))
    nodes = [node for manager in managers for node in _environments(manager)]
    if nodes and not any(_holds(node, size) for node in nodes):
        return 0
    if any(_largest(manager, size.cores) < size.cores for manager in managers):
        return 0
    total = slots(service)
    return None if total is None else total // size.cores


def number(entry: Mapping[str, Any], key: str) -> int | None:
    """Return a count, which may be written as text; None if there is none."""
    text = str(entry.get(key, ""))
    # Converting an endless text would take endless time.
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def _takes(share: Mapping[str, Any], queue: str, size: PilotSize) -> bool:
    if queue and queue not in (share.get("MappingQueue"), share.get("Name")):
        return False
    limits = (("MaxWallTime", size.walltime), ("MaxSlotsPerJob", size.cores), ("MaxMainMemory", size.memory))
    return share.get("ServingState") not in CLOSED and all(
        (limit := number(share, key)) is None or needed <= limit for key, needed in limits
    )


def _holds(node: Mapping[str, Any], size: PilotSize) -> bool:
    cores, memory = number(node, "LogicalCPUs"), number(node, "MainMemorySize")
    return (cores is None or size.cores <= cores) and (memory is None or size.memory <= memory)


def _largest(manager: Mapping[str, Any], unknown: int) -> int:
    """Return the processors of the largest node: 16 for ``2:10 16:3``."""
    parts = str(manager.get("LogicalCPUDistribution", "")).split()
    counts = [first for part in parts if (first := part.partition(":")[0]).isdecimal()]
    return max((int(count) for count in counts), default=unknown)


def _environments(manager: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in _all(manager.get("ExecutionEnvironments")):
        yield from _all(group.get("ExecutionEnvironment"))


def _all(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a list. ARC writes a single record without a list."""
    for record in value if isinstance(value, list) else [value]:
        if isinstance(record, dict):
            yield record
