"""Forecast the start of a waiting transfer's delivery, if all deliveries take as long as the last ones
(D3)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from pilotage.model.records.constants import StagingConstants
from pilotage.model.records.states import TransferState
from pilotage.model.records.transfer_queues import TransferCount
from pilotage.model.records.work import Transfer
from pilotage.model.rules.transfer_limits import Room
from pilotage.model.rules.transfer_shares import base_priority
from pilotage.policies.staging.shares import apportion

WAITING = (TransferState.QUEUED, TransferState.PREPARING, TransferState.PREPARED)

HALF = 0.5
"""Average remaining part of a running delivery."""


@dataclass(frozen=True, slots=True)
class ShareLoad:
    """The work of a share: ``rest`` counts its remaining deliveries, each with one slot and the same
    duration."""

    priority: int
    rest: float


def deliveries_before(
    transfer: Transfer, ahead: float, counts: Iterable[TransferCount], constants: StagingConstants, room: Room
) -> float:
    """Return the time until a transfer's delivery starts, in units of one delivery's duration.

    ``ahead`` counts the slots that earlier transfers of its share take. A limit of a storage or link acts
    like a separate number of slots, with its own waiting transfers. The longest of these waits counts.
    """
    counts = [count for count in counts if count.state in WAITING or count.state is TransferState.DELIVERING]
    mine = max(ahead, 0.0) + 1
    longest = wait(constants.delivery_slots, loads(counts, constants), transfer.share, mine)
    for place, limit in room.limits(transfer).items():
        there = [count for count in counts if room.touches(place, count.source, count.destination)]
        slots = min(limit, constants.delivery_slots)
        # Reduce ``ahead`` to the part of its share's waiting transfers that use this place.
        bundle = constants.files_per_slot
        part = _waiting(there, transfer.share, bundle) / max(1.0, _waiting(counts, transfer.share, bundle))
        before = ahead * min(1.0, part) + 1
        longest = max(longest, wait(slots, loads(there, constants), transfer.share, before))
    return longest


def loads(counts: Iterable[TransferCount], constants: StagingConstants) -> dict[str, ShareLoad]:
    """Return the work of each share."""
    slots: dict[str, float] = {}
    for count in counts:
        part = 1.0 if count.state in WAITING else HALF
        slots[count.share] = slots.get(count.share, 0.0) + part * count.slots(constants.files_per_slot)
    return {share: ShareLoad(base_priority(share, constants), slots[share]) for share in sorted(slots)}


def wait(slots: int, shares: Mapping[str, ShareLoad], share: str, starts: float) -> float:
    """Return the time until a share has started ``starts`` more deliveries, in units of one delivery's
    duration.

    Every share uses the slots that it is entitled to (D4). When one is done, the others get its slots. With
    fewer slots than shares, they take turns in proportion to priority.
    """
    rests = {name: load.rest for name, load in shares.items() if load.rest > 0}
    rests[share] = max(rests.get(share, 0.0), starts)
    priorities = {name: shares[name].priority if name in shares else 1 for name in rests}
    elapsed = 0.0
    while True:
        rates = _rates(slots, rests, priorities)
        # Advance to the time when the next share is done, unless the wait ends earlier.
        length = min(rests[name] / rates[name] for name in rests)
        if starts / rates[share] <= length:
            return elapsed + starts / rates[share]
        elapsed += length
        starts -= length * rates[share]
        after = {name: rests[name] - length * rates[name] for name in rests}
        rests = {name: rest for name, rest in after.items() if rest > 1e-9 or name == share}


def _rates(slots: int, rests: Mapping[str, float], priorities: Mapping[str, int]) -> dict[str, float]:
    """Return the slots that each share uses: its entitlement, or its part of the time in one slot."""
    if slots < len(rests):
        total = sum(priorities[name] for name in rests)
        return {name: slots * priorities[name] / total for name in rests}
    wants = {name: ceil(rests[name]) for name in rests}
    entitled = apportion(slots, wants, priorities)
    # Equal shares take turns with the remainder, so each has the mean.
    equals: dict[tuple[int, int], list[int]] = defaultdict(list)
    for name in rests:
        equals[priorities[name], wants[name]].append(entitled[name])
    return {name: max(1.0, fmean(equals[priorities[name], wants[name]])) for name in rests}


def _waiting(counts: Iterable[TransferCount], share: str, bundle: int) -> float:
    return sum(count.slots(bundle) for count in counts if count.share == share and count.state in WAITING)
