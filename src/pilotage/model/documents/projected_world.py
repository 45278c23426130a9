"""The world after a decision, so that the next decision needs no new read."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.decision import Change, Committed, Creation, Decision, Forget, Move, Touch
from pilotage.model.documents.world import World
from pilotage.model.records.states import Kind
from pilotage.model.records.work import Job, Replica, Transfer

Record = TypeVar("Record", Job, Transfer)

_COLUMNS: Mapping[Kind, frozenset[str]] = {
    "job": frozenset(field.name for field in fields(Job)),
    "transfer": frozenset(field.name for field in fields(Transfer)),
}
"""The columns of records that a world shows."""


def projected(world: World, decision: Decision, committed: Committed | None = None) -> World:
    """Return the world after a decision's changes of jobs, transfers, replicas and failed deliveries.

    Use what a commit accepted, or all changes if nothing is committed yet. New jobs and transfers are
    missing, because they have no number before the commit: read the world again to decide about them.
    """
    accepted = list(_accepted_changes(decision, committed))
    created = [record for change, ids in accepted for id_ in ids for record in _created_records(change, id_)]
    cleared = {end for change in decision.changes if isinstance(change, Forget) for end in change.failed_at}
    failed = (delivery for delivery in world.failed_deliveries if delivery.end not in cleared)
    return replace(
        world,
        jobs=_after(world.jobs, "job", accepted, world.time),
        transfers=_after(world.transfers, "transfer", accepted, world.time),
        replicas=(*world.replicas, *(record for record in created if isinstance(record, Replica))),
        failed_deliveries=(*failed, *(record for record in created if isinstance(record, FailedDelivery))),
    )


def _accepted_changes(
    decision: Decision, committed: Committed | None
) -> Iterator[tuple[Move | Touch, tuple[int, ...]]]:
    """Yield the changes of existing records, each with the records that it applies to."""
    for number, change in enumerate(decision.changes):
        if isinstance(change, Move | Touch):
            yield change, change.ids if committed is None else committed.accepted[number]


def _created_records(change: Change, id_: int) -> tuple[Creation, ...]:
    return change.creates.get(id_, ()) if isinstance(change, Move) else ()


def _columns(kind: Kind, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name in _COLUMNS[kind]}


def _after(
    records: tuple[Record, ...],
    kind: Kind,
    accepted: Sequence[tuple[Move | Touch, tuple[int, ...]]],
    time: float,
) -> tuple[Record, ...]:
    """Return the records of a kind after these changes."""
    values: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    more: defaultdict[int, int] = defaultdict(int)
    for change, ids in accepted:
        if change.kind != kind:
            continue
        new = _columns(kind, change.changes)
        record_changes = change.own_changes if isinstance(change, Move) else {}
        if isinstance(change, Move):
            new |= {"state": change.target, "since": time}
        for id_ in ids:
            values[id_].update(new, **_columns(kind, record_changes.get(id_, {})))
            more[id_] += isinstance(change, Move) and change.next_attempt
    if not values:
        return records
    return tuple(
        replace(record, attempt=record.attempt + more[record.id], **values[record.id])
        if record.id in values
        else record
        for record in records
    )
