"""Unified queues and their pseudo-queues: conditions that reach these, and limits that they share (B2)."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

from pilotage.model.records.federation import Federation, Queue, QueueStatus

_BY_OPENNESS: tuple[QueueStatus, ...] = (
    *("online", "standby", "test", "brokeroff", "paused", "draining", "offline"),
)


def _lower(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


CONDITIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "status": lambda pseudo, unified: max(pseudo, unified, key=_BY_OPENNESS.index),
    "computing_element": lambda pseudo, unified: pseudo or unified,
    "disable_reassign": lambda pseudo, unified: pseudo or unified,
    "vos": lambda pseudo, unified: pseudo or unified,
    "num_slots": lambda pseudo, unified: unified if pseudo is None else pseudo,
    "max_disk_io": lambda pseudo, unified: _lower(pseudo or None, unified or None),
    "transferring_limit": _lower,
}
"""The attributes of a unified queue that reach its pseudo-queues, with what follows from both values."""


def conditioned(federation: Federation) -> Federation:
    """Return the federation with the conditions of unified queues added to their pseudo-queues."""
    queues_by_name = {queue.name: queue for queue in federation.queues}
    if not any(queue.parent in queues_by_name for queue in federation.queues):
        return federation
    return replace(
        federation,
        queues=tuple(
            _conditioned(queue, queues_by_name[queue.parent]) if queue.parent in queues_by_name else queue
            for queue in federation.queues
        ),
    )


def _conditioned(queue: Queue, unified: Queue) -> Queue:
    values = {name: merge(getattr(queue, name), getattr(unified, name)) for name, merge in CONDITIONS.items()}
    return replace(queue, **values)


def unconditioned(queue: Queue, unified: Queue) -> Queue:
    """Return a pseudo-queue without the conditions that are its unified queue's."""
    defaults: dict[str, Any] = {
        name: Queue.__dataclass_fields__[name].default
        for name in CONDITIONS
        if getattr(queue, name) == getattr(unified, name)
    }
    return replace(queue, **defaults)


R = TypeVar("R")


class _Same:
    """A federation as a key. An equal one is another key: comparing takes too long."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation

    def __hash__(self) -> int:
        return id(self.federation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.federation is other.federation


def _once(of_federation: Callable[[Federation], R]) -> Callable[[Federation], R]:
    """Work out something once for each federation: of thousands of queues, people ask about one."""
    cache = lru_cache(maxsize=2)(lambda key: of_federation(key.federation))
    return wraps(of_federation)(lambda federation: cache(_Same(federation)))


@_once
def counted_together(federation: Federation) -> Mapping[str, tuple[str, ...]]:
    """Return the queues that count together with each queue, by name: a unified queue with its
    pseudo-queues."""
    together: dict[str, list[str]] = defaultdict(list)
    for queue in federation.queues:
        together[queue.parent or queue.name].append(queue.name)
    return {name: tuple(sorted(names)) for names in together.values() for name in names}


def queues_served(federation: Federation, name: str) -> tuple[str, ...]:
    """Return the queues that a queue's pilots take jobs from: its pseudo-queues if it is a unified one."""
    return tuple(queue.name for queue in federation.queues if queue.parent == name) or (name,)


class PilotLimit(NamedTuple):
    """The most live pilots of some queues together."""

    queues: tuple[str, ...]
    pilots: int


@_once
def pilot_limits(federation: Federation) -> Mapping[str, tuple[PilotLimit, ...]]:
    """Return the limits on pilots of each queue with a computing element, by name (P4).

    ``max_pilots`` of a unified queue limits all its pseudo-queues together, besides their own limits.
    """
    queues, together = {queue.name: queue for queue in federation.queues}, counted_together(federation)
    limits_by_queue = {}
    for queue in federation.queues:
        element, unified = queue.computing_element, queues.get(queue.parent, queue)
        limits = []
        if element and element != unified.computing_element:
            limits.append(PilotLimit((queue.name,), element.max_pilots))
        if element and unified.computing_element:
            limits.append(PilotLimit(together[queue.name], unified.computing_element.max_pilots))
        if limits:
            limits_by_queue[queue.name] = tuple(limits)
    return limits_by_queue
