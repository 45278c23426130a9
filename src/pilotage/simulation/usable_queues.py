"""Queues that the work may use: cores of other queues do not count as available."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.spec import TaskSpec
from pilotage.simulation.payloads import SimulatedTask


def usable(federation: Federation, tasks: Collection[SimulatedTask]) -> Federation:
    """Return the federation with only those queues that accept jobs of these tasks (B4, F1)."""
    vos = {task.owner.vo for task in tasks}
    found = open_queues(federation, (task.spec for task in tasks))
    return replace(
        federation, queues=tuple(one for one in found if not one.vos or not vos.isdisjoint(one.vos))
    )


def open_queues(federation: Federation, specs: Iterable[TaskSpec]) -> Iterator[Queue]:
    """Yield the queues that accept work: online ones, and the ones that a task names (B4)."""
    named = {name for spec in specs for name in spec.queues}
    return (queue for queue in federation.queues if queue.is_online or queue.name in named)
