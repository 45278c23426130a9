"""A transfer's share, priority and place, the holders of slots, and its likely start (D1 to D8)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilotage.explain.history import Event
from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.records.federation import StagingConstants
from pilotage.model.records.states import TransferState
from pilotage.model.records.transfer_queues import (
    DELIVERING,
    FINISHING,
    TRANSFER_QUEUES,
    TransferCount,
    TransferQueue,
)
from pilotage.model.records.work import Transfer
from pilotage.model.rules.transfer_shares import base_priority
from pilotage.model.values.phrases import duration, moment, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInQueue:
    """The place of a transfer in its queue, and why it waits.

    ``ahead`` counts transfers of its share in this queue with a higher priority, or with the same priority
    and older. ``full`` names a full storage or link. ``breaker`` is the circuit breaker that holds it up
    (F4). ``accounts`` are the policies' notes on the queues, by name. ``live`` counts all live transfers.
    ``lasting`` is the mean duration of the last deliveries in s, None if there were none. The transfer's own
    delivery starts after ``deliveries`` such durations.
    """

    queue: TransferQueue
    ahead: int
    full: str
    accounts: Mapping[str, Mapping[str, Any]]
    live: Sequence[TransferCount] = ()
    deliveries: float = 0.0
    lasting: float | None = None
    breaker: CircuitBreaker | None = None

    @property
    def account(self) -> Mapping[str, Any]:
        """Return the account of its queue."""
        return self.accounts[self.queue.name]


def of_transfer(
    transfer: Transfer,
    events: Sequence[Event],
    constants: StagingConstants,
    time: float,
    waiting: PlaceInQueue | None,
) -> Iterator[str]:
    """Describe a transfer.

    ``waiting`` is its place if it waits in a queue. The time is in s since 1970.
    """
    yield f"transfer {transfer.id} of {transfer.file}: {transfer.state}, attempt {transfer.attempt}"
    yield f"  {transfer.direction} from {transfer.source} to {transfer.destination}"
    if transfer.way:
        yield f"  {transfer.way}"
    yield f"  {_priority(transfer, constants)}"
    if waiting is not None:
        yield from _place_in_queue(transfer, constants, time, waiting)
    for event in events:
        change = f"{event.source} to {event.target}" if event.source else str(event.target)
        yield f"  {moment(event.time)}  {change}: {event.cause}"
    if transfer.emergency and any(transfer.state is queue.holding for queue in TRANSFER_QUEUES):
        yield "  it holds an emergency slot"
    if transfer.error:
        yield f"  error: {transfer.error}"


def _priority(transfer: Transfer, constants: StagingConstants) -> str:
    base = base_priority(transfer.share, constants)
    share = f"share {transfer.share}, of base priority {base}"
    if transfer.priority > base:
        return f"{share}; priority {transfer.priority}, given by hand or by a better share"
    # The lowest job priority that rounds down to this one.
    job = -(-transfer.priority * 100 // base)
    return f"{share}; priority {transfer.priority} = {base} x {job} / 100, rounded down"


def _place_in_queue(
    transfer: Transfer, constants: StagingConstants, time: float, waiting: PlaceInQueue
) -> Iterator[str]:
    aged = (time - transfer.since - constants.ageing_timeout) // constants.ageing_period
    if aged > 0:
        waited = duration(time - transfer.since)
        yield f"  having waited for {waited}, it goes as if it had {aged:.0f} more"
    queue = waiting.queue.name
    yield f"  number {waiting.ahead + 1} of its share's queue for {queue}, by priority and age"
    if transfer.wake_at is not None and transfer.wake_at > time:
        yield f"  not tried again before {moment(transfer.wake_at)}"
    if waiting.full and waiting.breaker is None:
        yield f"  {waiting.full} takes no more transfers now: its limit is reached"
    account = waiting.account
    is_bound = account.get("prepared", 0) >= account.get("bound", 1)
    if is_bound:
        yield f"  {account['prepared']} are prepared and wait for their delivery, the most that may"
    # If enough are prepared, all wait for a slot of delivering.
    yield from _holders(transfer, DELIVERING if is_bound else waiting.queue, waiting)
    yield f"  {_likely(transfer, waiting, time)}"


def _holders(transfer: Transfer, queue: TransferQueue, waiting: PlaceInQueue) -> Iterator[str]:
    """Yield the shares with their slots, entitlements and waiting transfers in a queue."""
    account = waiting.accounts[queue.name]
    in_use = sum(share["held"] for share in account["shares"].values())
    emergencies = sum(
        count.transfers for count in waiting.live if count.emergency and count.state is queue.holding
    )
    emergency = f", {emergencies} of them in emergency" if emergencies else ""
    yield f"  {in_use} of {plural(account['slots'], 'slot')} of {queue.name} are held{emergency}:"
    numbers: dict[str, Counter[TransferState]] = {}
    for count in waiting.live:
        numbers.setdefault(count.share, Counter())[count.state] += count.transfers
    for name in sorted(numbers.keys() | account["shares"].keys()):
        share, waits = account["shares"].get(name, {}), numbers.get(name, Counter())
        mine = ", its share" if name == transfer.share else ""
        parts = [f"{share.get('held', 0)} held", f"entitled to {share.get('entitled', 0)}"]
        parts += [f"{waits[each.waiting]} {each.waiting}" for each in TRANSFER_QUEUES if waits[each.waiting]]
        yield f"    {name}{mine}: {', '.join(parts)}"


def _likely(transfer: Transfer, waiting: PlaceInQueue, time: float) -> str:
    """Estimate the start: transfers ahead use its share's slots first, each for the mean time of the last
    ones."""
    if waiting.breaker is not None:
        return "when it starts cannot be predicted: that circuit breaker may stay open longer"
    share = waiting.account["shares"].get(transfer.share, {"started": 0, "emergency": 0})
    at_once = waiting.ahead < share["started"] + share["emergency"]
    if waiting.queue is FINISHING:
        return "it is likely to be finished " + ("now" if at_once else "after those before it")
    if at_once and waiting.queue is DELIVERING:
        return "it is likely to start delivering now"
    if waiting.lasting is None:
        return "when it is delivered cannot be predicted: nothing was delivered lately"
    start = max(time + waiting.deliveries * waiting.lasting, transfer.wake_at or 0)
    each = duration(waiting.lasting)
    estimate = f"in about {duration(start - time)}, at {moment(start)}"
    return f"its delivery is likely to start {estimate}: the last deliveries took {each} each"
