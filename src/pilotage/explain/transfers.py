"""A transfer's share, priority and place, who holds the slots, and when it is likely to start (D1 to D7)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilotage.model.federation import StagingConstants
from pilotage.model.states import TransferState
from pilotage.model.transfers import base_priority
from pilotage.model.work import Transfer

from .history import Event
from .words import ago, moment, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The place of a queued transfer, and what it waits behind.

    ``ahead`` counts those of its share with a higher priority, or the same and older. ``full`` names the
    storage or link that takes no more. ``account`` are the numbers of the shares by name, as the policy notes
    them, and ``slots`` all delivery slots. ``lasting`` is how long the last deliveries took on average, in s;
    None where there were none.
    """

    ahead: int
    full: str
    slots: int
    account: Mapping[str, Mapping[str, Any]]
    lasting: float | None


def of_transfer(
    transfer: Transfer,
    events: Sequence[Event],
    constants: StagingConstants,
    time: float,
    waiting: Waiting | None,
) -> Iterator[str]:
    """Tell all of a transfer; ``waiting`` of one that is queued. The time is in s since 1970."""
    yield f"transfer {transfer.id} of {transfer.file}: {transfer.state}, attempt {transfer.attempt}"
    yield f"  {transfer.direction} from {transfer.source} to {transfer.destination}"
    yield f"  {_priority(transfer, constants)}"
    if waiting is not None:
        yield from _place(transfer, constants, time, waiting)
    for event in events:
        change = f"{event.source} to {event.target}" if event.source else str(event.target)
        yield f"  {moment(event.time)}  {change}: {event.cause}"
    if transfer.state is TransferState.DELIVERING and transfer.emergency:
        yield "  it holds an emergency slot (D5)"
    if transfer.error:
        yield f"  error: {transfer.error}"


def _priority(transfer: Transfer, constants: StagingConstants) -> str:
    base = base_priority(transfer.share, constants)
    share = f"share {transfer.share}, of base priority {base}"
    if transfer.priority > base:
        return f"{share}; priority {transfer.priority}, given by hand or by a better share (D2, D9)"
    job = -(-transfer.priority * 100 // base)
    return f"{share}; priority {transfer.priority} = {base} x {job} / 100, rounded down (D2)"


def _place(transfer: Transfer, constants: StagingConstants, time: float, waiting: Waiting) -> Iterator[str]:
    aged = (time - transfer.since - constants.ageing_timeout) // constants.ageing_period
    if aged > 0:
        yield f"  having waited for {ago(time - transfer.since)}, it goes as if it had {aged:.0f} more (D7)"
    yield f"  number {waiting.ahead + 1} of its share's queue, by priority and age"
    if transfer.wake_at is not None and transfer.wake_at > time:
        yield f"  not tried again before {moment(transfer.wake_at)}"
    if waiting.full:
        yield f"  {waiting.full} takes no more transfers now: its limit is reached"
    held = sum(share["delivering"] for share in waiting.account.values())
    yield f"  {held} of {plural(waiting.slots, 'delivery slot')} are held:"
    for name, share in waiting.account.items():
        mine = ", its share" if name == transfer.share else ""
        numbers = f"{share['delivering']} held, entitled to {share['entitled']}, {share['queued']} queued"
        yield f"    {name}{mine}: {numbers}"
    yield f"  {_likely(transfer, waiting)}"


def _likely(transfer: Transfer, waiting: Waiting) -> str:
    """Estimate the start: those ahead pass through its share's slots, each as long as the last took."""
    share = waiting.account.get(transfer.share)
    if share is None or waiting.full:
        return "when it starts cannot be told now"
    if waiting.ahead < share["started"] + share["emergency"]:
        return "it is likely to start now"
    if waiting.lasting is None:
        return "when it starts cannot be told: nothing was delivered lately"
    slots = max(1, share["entitled"])
    turns = (waiting.ahead + 1) / slots
    lasting, start = ago(waiting.lasting), ago(turns * waiting.lasting)
    return f"it is likely to start in about {start}: the last deliveries took {lasting} each"
