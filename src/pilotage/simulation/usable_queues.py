"""Queues that work may use: others' cores are no part of what could have been done."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.spec import TaskSpec

from .payloads import SimulatedTask


def usable(federation: Federation, tasks: Collection[SimulatedTask]) -> Federation:
    """The federation with the queues alone that may take jobs of some of these tasks (B4, F1)."""
    vos = {task.owner.vo for task in tasks}
    found = open_queues(federation, (task.spec for task in tasks))
    return replace(
        federation, queues=tuple(one for one in found if not one.vos or not vos.isdisjoint(one.vos))
    )


def open_queues(federation: Federation, specs: Iterable[TaskSpec]) -> Iterator[Queue]:
    """The queues that take work: those that are online, and those that a task names (B4)."""
    named = {name for spec in specs for name in spec.queues}
    return (queue for queue in federation.queues if queue.is_online or queue.name in named)
