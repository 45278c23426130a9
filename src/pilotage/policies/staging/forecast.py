"""Forecast when a waiting transfer will be delivered, if all waiting transfers take as long as the last
ones did (D3)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from pilotage.model.records.constants import StagingConstants
from pilotage.model.records.states import TransferState
from pilotage.model.records.transfer_counts import TransferCount
from pilotage.model.records.work import Transfer
from pilotage.model.rules.transfer_limits import Room
from pilotage.model.rules.transfer_shares import base_priority
from pilotage.policies.staging.shares import apportion

WAITING = (TransferState.QUEUED, TransferState.PREPARING, TransferState.PREPARED)

HALF = 0.5
"""Average remaining part of a running delivery."""


@dataclass(frozen=True, slots=True)
class ShareLoad:
    """The work of a share: its remaining deliveries, each of one slot and one length of time."""

    priority: int
    left: float


def deliveries_before(
    transfer: Transfer, ahead: float, counts: Iterable[TransferCount], constants: StagingConstants, room: Room
) -> float:
    """Return the time until a transfer's delivery starts, in lengths of one delivery.

    ``ahead`` are the slots that earlier transfers of its share take. Storages and links with limits act as
    slots of their own, with their own waiting transfers. The longest of these waits counts.
    """
    counts = [one for one in counts if one.state in WAITING or one.state is TransferState.DELIVERING]
    mine = max(ahead, 0.0) + 1
    longest = wait(constants.delivery_slots, loads(counts, constants), transfer.share, mine)
    for place, limit in room.limits(transfer).items():
        there = [one for one in counts if room.touches(place, one.source, one.destination)]
        slots = min(limit, constants.delivery_slots)
        # Of its own share, count those that use the same place; half of them are ahead of it on average.
        bundle = constants.files_per_slot
        part = _waiting(there, transfer.share, bundle) / max(1.0, _waiting(counts, transfer.share, bundle))
        before = ahead * min(1.0, part) + 1
        longest = max(longest, wait(slots, loads(there, constants), transfer.share, before))
    return longest


def loads(counts: Iterable[TransferCount], constants: StagingConstants) -> dict[str, ShareLoad]:
    """Return the work of each share."""
    left: dict[str, float] = {}
    for one in counts:
        part = 1.0 if one.state in WAITING else HALF
        left[one.share] = left.get(one.share, 0.0) + part * one.slots(constants.files_per_slot)
    return {share: ShareLoad(base_priority(share, constants), left[share]) for share in sorted(left)}


def wait(slots: int, shares: Mapping[str, ShareLoad], share: str, starts: float) -> float:
    """Return the time until a share has started that many more deliveries, in lengths of one delivery.

    Every share works in the slots that it is entitled to (D4). When one is done, the others get its slots.
    With fewer slots than shares, they take turns in proportion to priority.
    """
    left = {name: load.left for name, load in shares.items() if load.left > 0}
    left[share] = max(left.get(share, 0.0), starts)
    priorities = {name: shares[name].priority if name in shares else 1 for name in left}
    passed = 0.0
    while True:
        rates = _rates(slots, left, priorities)
        # Go to the next share that is done, unless the wait ends before.
        length = min(left[name] / rates[name] for name in left)
        if starts / rates[share] <= length:
            return passed + starts / rates[share]
        passed += length
        starts -= length * rates[share]
        after = {name: left[name] - length * rates[name] for name in left}
        left = {name: rest for name, rest in after.items() if rest > 1e-9 or name == share}


def _rates(slots: int, left: Mapping[str, float], priorities: Mapping[str, int]) -> dict[str, float]:
    """Return the slots in which each share delivers: its entitlement, or its part of the time in one slot."""
    if slots < len(left):
        total = sum(priorities[name] for name in left)
        return {name: slots * priorities[name] / total for name in left}
    wants = {name: ceil(left[name]) for name in left}
    entitled = apportion(slots, wants, priorities)
    # Equals take turns with the remainder, so each has the mean of it.
    equals: dict[tuple[int, int], list[int]] = defaultdict(list)
    for name in left:
        equals[priorities[name], wants[name]].append(entitled[name])
    return {name: max(1.0, fmean(equals[priorities[name], wants[name]])) for name in left}


def _waiting(counts: Iterable[TransferCount], share: str, bundle: int) -> float:
    return sum(one.slots(bundle) for one in counts if one.share == share and one.state in WAITING)
