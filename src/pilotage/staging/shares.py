"""Transfer shares: who gets the delivery slots, and in which order (D1 to D7)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heapreplace

from pilotage.model.counters import TRANSFERS_BY_SHARE
from pilotage.model.decision import Change, Claim, Decision, Move, Touch
from pilotage.model.federation import StagingConstants
from pilotage.model.states import TransferState
from pilotage.model.transfers import base_priority
from pilotage.model.work import Transfer
from pilotage.model.world import World


def apportion(slots: int, wants: Mapping[str, int], priorities: Mapping[str, int]) -> dict[str, int]:
    """Slots of each share that wants any, in proportion to priority (D3, D4).

    Exactly min(slots, all wants) are given, none gets more than it wants, and each gets at least one
    where there are enough. In between, quotas are in exact proportion to priority, rounded by largest
    remainder, ties by higher priority, then by name. Where there are fewer slots than shares, those of
    highest priority get one each. Wants and slots are counts, priorities positive numbers.
    """
    ranked = sorted((share for share in wants if wants[share] > 0), key=lambda s: (-priorities[s], s))
    if slots <= len(ranked):
        return {share: int(place < slots) for place, share in enumerate(ranked)}
    if slots >= sum(wants[share] for share in ranked):
        return {share: wants[share] for share in ranked}
    level = _level(slots, {share: wants[share] for share in ranked}, priorities)
    quotas = {s: min(max(level * priorities[s], Fraction(1)), Fraction(wants[s])) for s in ranked}
    given = {share: int(quota) for share, quota in quotas.items()}
    by_remainder = sorted(ranked, key=lambda share: given[share] - quotas[share])
    for share in by_remainder[: slots - sum(given.values())]:
        given[share] += 1
    return given


def _level(slots: int, wants: Mapping[str, int], priorities: Mapping[str, int]) -> Fraction:
    """Slots per unit of priority at which quotas within 1..wants add up to the slots.

    The sum of quotas grows piecewise linearly with the level: a share joins where its quota passes one
    and leaves where it has what it wants.
    """
    bends = sorted(
        [(Fraction(1, priorities[share]), priorities[share]) for share in wants]
        + [(Fraction(wants[share], priorities[share]), -priorities[share]) for share in wants]
    )
    total, slope, level = Fraction(len(wants)), 0, Fraction(0)
    for bend, change in bends:
        reached = total + slope * (bend - level)
        if reached >= slots:
            break
        total, slope, level = reached, slope + change, bend
    return level + (slots - total) / slope


@dataclass(frozen=True, slots=True)
class _Line:
    """A share with transfers in the system: those that have slots are counted, those that wait are in order.

    ``lot`` is drawn anew at every pass, so that of two shares each comes first in proportion to priority.
    """

    share: str
    priority: int
    delivering: int
    queue: Sequence[Transfer]
    lot: float


def start(world: World) -> Decision:
    """Gives the delivery slots to queued transfers (D3 to D7).

    A slot is in use while its transfer is DELIVERING, so all of D5 follows from one count: transfers beyond
    ``delivery_slots`` hold emergency slots, and while there are any, nothing regular starts; each transfer
    that finishes turns one of them regular. Two claims hold this at commit, whoever else decides at
    the same time: regular starts never take the total past ``delivery_slots`` nor emergency starts past
    ``delivery_slots + max_emergency``, and no share passes what it is entitled to.
    """
    constants = world.federation.staging
    lines = _lines(world)
    entitled = apportion(
        constants.delivery_slots,
        {line.share: line.delivering + len(line.queue) for line in lines},
        {line.share: line.priority for line in lines},
    )
    busy = sum(line.delivering for line in lines)
    given = _give(lines, entitled, constants.delivery_slots - busy)
    emergency = _emergencies(lines, given, constants, busy)
    changes: list[Change] = [*_turned_regular(world, busy - constants.delivery_slots)]
    granted = [line for line in lines if given[line.share]]
    changes += [_starting(world, line, given[line.share], emergency=False) for line in granted]
    changes += [_starting(world, line, 1, emergency=True) for line in emergency]
    return Decision(
        step="staging.start",
        time=world.time,
        seed=world.seed,
        changes=tuple(changes),
        notes={
            "slots": constants.delivery_slots,
            "delivering": busy,
            "shares": {line.share: _account(line, entitled, given, emergency) for line in lines},
        },
    )


def _account(
    line: _Line, entitled: Mapping[str, int], given: Mapping[str, int], emergency: Iterable[_Line]
) -> dict[str, int]:
    return {
        "priority": line.priority,
        "delivering": line.delivering,
        "queued": len(line.queue),
        "entitled": entitled.get(line.share, 0),
        "started": given[line.share],
        "emergency": sum(line is other for other in emergency),
    }


def _lines(world: World) -> list[_Line]:
    """Active shares by name (D3): those with a transfer delivering, or queued and due."""
    delivering: dict[str, int] = defaultdict(int)
    queued: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in world.transfers:
        if transfer.state is TransferState.DELIVERING:
            delivering[transfer.share] += 1
        elif transfer.state is TransferState.QUEUED and (transfer.wake_at or 0) <= world.time:
            queued[transfer.share].append(transfer)
    constants = world.federation.staging
    shares = sorted(delivering.keys() | queued.keys())
    if not shares:
        return []
    # Here, and not above: a server without work does without numpy.
    from numpy.random import default_rng

    lots = default_rng(world.seed).exponential(size=len(shares)).tolist()
    return [
        _Line(
            share=share,
            priority=base_priority(share, constants),
            delivering=delivering[share],
            queue=in_order(queued[share], world.time, constants),
            lot=lot / base_priority(share, constants),
        )
        for share, lot in zip(shares, lots, strict=True)
    ]


def in_order(transfers: Iterable[Transfer], time: float, constants: StagingConstants) -> list[Transfer]:
    """Queued transfers of one share, first come those that go first: by DTR priority, then age (D3, D7).

    Past ``ageing_timeout`` a transfer gains 1 for every full ``ageing_period`` that it has waited, up to
    the highest DTR priority queued here: there it is the older one and goes first. Only the order knows
    of it, so a transfer that leaves the queue has its own priority.
    """
    waiting = list(transfers)
    highest = max((transfer.priority for transfer in waiting), default=0)

    def place(transfer: Transfer) -> tuple[int, float, int]:
        overdue = max(0.0, time - transfer.since - constants.ageing_timeout)
        aged = transfer.priority + int(overdue // constants.ageing_period)
        return (-min(aged, highest), transfer.created, transfer.id)

    return sorted(waiting, key=place)


def _give(lines: Sequence[_Line], entitled: Mapping[str, int], free: int) -> dict[str, int]:
    """Free slots that each share takes now (D4).

    Shares that hold more than they are entitled to keep it until it finishes, so the free slots may not
    do for all others: the one furthest behind its priority takes first, among equals by lot. A share is
    always entitled to one: where there are fewer slots than shares, a free one goes to a share that has
    none, each in proportion to its priority, so that none of them starves (D10).
    """
    given = {line.share: 0 for line in lines}

    def turn(line: _Line) -> tuple[float, float, str]:
        held = line.delivering + given[line.share]
        return (held / line.priority, line.lot, line.share)

    def takes(line: _Line) -> bool:
        held = line.delivering + given[line.share]
        return given[line.share] < len(line.queue) and held < max(1, entitled.get(line.share, 0))

    heap = [(turn(line), line) for line in lines if takes(line)]
    heapify(heap)
    for _ in range(max(0, free)):
        if not heap:
            break
        line = heap[0][1]
        given[line.share] += 1
        if takes(line):
            heapreplace(heap, (turn(line), line))
        else:
            heappop(heap)
    return given


def _emergencies(
    lines: Sequence[_Line], given: Mapping[str, int], constants: StagingConstants, busy: int
) -> list[_Line]:
    """Shares that take an emergency slot: transfers wait, none has a slot, all slots are taken (D5).

    Where not all of them can, those that do are drawn, each in proportion to its priority.
    """
    taken = busy + sum(given.values())
    left = constants.delivery_slots + constants.max_emergency - taken
    if taken < constants.delivery_slots or left <= 0:
        return []
    without = [line for line in lines if line.queue and not line.delivering and not given[line.share]]
    return sorted(without, key=lambda line: (line.lot, line.share))[:left]


def _turned_regular(world: World, beyond: int) -> list[Touch]:
    """Emergency slots that have turned regular: the oldest, down to the count beyond the slots (D5)."""
    held = [t for t in world.transfers if t.state is TransferState.DELIVERING and t.emergency]
    turned = sorted(held, key=lambda t: (t.since, t.id))[: max(0, len(held) - max(0, beyond))]
    if not turned:
        return []
    ids, attempts = tuple(t.id for t in turned), tuple(t.attempt for t in turned)
    return [Touch(kind="transfer", ids=ids, attempts=attempts, changes={"emergency": False})]


def _starting(world: World, line: _Line, count: int, emergency: bool) -> Move:
    """The first of a share's queue start, within the slots of all and what the share holds after it."""
    constants = world.federation.staging
    transfers = line.queue[:count]
    total = constants.delivery_slots + (constants.max_emergency if emergency else 0)
    limits = {None: total, line.share: line.delivering + count}
    return Move(
        kind="transfer",
        ids=tuple(transfer.id for transfer in transfers),
        attempts=tuple(transfer.attempt for transfer in transfers),
        source=TransferState.QUEUED,
        target=TransferState.DELIVERING,
        cause="given an emergency slot (D5)" if emergency else "given a slot (D3)",
        changes={"heartbeat": world.time, "started": world.time, "wake_at": None, "emergency": emergency},
        claims=tuple(
            Claim(
                counter=TRANSFERS_BY_SHARE,
                key=(share,),
                states=(TransferState.DELIVERING,),
                limit=limit,
            )
            for share, limit in limits.items()
        ),
    )
