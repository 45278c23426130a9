"""Queues that work may use: others' cores are no part of what could have been done."""

from collections.abc import Collection
from dataclasses import replace

from pilotage.model.federation import Federation

from .payloads import SimulatedTask


def usable(federation: Federation, tasks: Collection[SimulatedTask]) -> Federation:
    """The federation with the queues alone that may take jobs of some of these tasks (B4, F1)."""
    vos = {task.owner.vo for task in tasks}
    named = {name for task in tasks for name in task.spec.queues}
    found = (queue for queue in federation.queues if queue.is_online or queue.name in named)
    return replace(
        federation, queues=tuple(one for one in found if not one.vos or not vos.isdisjoint(one.vos))
    )
