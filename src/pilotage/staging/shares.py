"""Transfer shares: who gets the delivery slots, and in which order (D1 to D7)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heappop, heapreplace
from itertools import islice

from pilotage.model.counters import TRANSFERS_BY_SHARE
from pilotage.model.decision import Change, Claim, Decision, Move, Touch
from pilotage.model.federation import StagingConstants
from pilotage.model.states import TransferState
from pilotage.model.transfer_limits import Room
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
    # The largest remainder first; sorting is stable, so that ties go by priority, then name.
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


@dataclass(slots=True)
class _Line:
    """A share with transfers in the system: those that have slots are counted, those that wait are in order.

    ``lot`` is drawn anew at every pass, so that of two shares each comes first in proportion to priority.
    ``given`` are those of the queue that start in this pass, ``seen`` is how many of it were looked at.
    """

    share: str
    priority: int
    delivering: int
    queue: Sequence[Transfer]
    lot: float
    blocked: int = 0
    given: list[Transfer] = field(default_factory=list)
    seen: int = 0

    @property
    def held(self) -> int:
        """Slots that it has."""
        return self.delivering + len(self.given)

    def take(self, room: Room) -> bool:
        """Start the next of the queue for which there is room; false where there is none."""
        while self.seen < len(self.queue):
            transfer = self.queue[self.seen]
            self.seen += 1
            if not room.full(transfer):
                room.take(transfer)
                self.given.append(transfer)
                return True
        return False


def start(world: World) -> Decision:
    """Gives the delivery slots to queued transfers (D3 to D7).

    A slot is in use while its transfer is DELIVERING, so all of D5 follows from one count: transfers beyond
    ``delivery_slots`` hold emergency slots, and while there are any, nothing regular starts; each transfer
    that finishes turns one of them regular, and in such a pass no other begins. Two claims hold this at
    commit, whoever else decides at the same time: regular starts never take the total past
    ``delivery_slots`` nor emergency starts past ``delivery_slots + max_emergency``, and no share passes what
    it is entitled to.
    """
    constants = world.federation.staging
    room = Room(world.federation, world.transfers)
    lines = _lines(world, room)
    entitled = apportion(
        constants.delivery_slots,
        {line.share: line.delivering + len(line.queue) for line in lines},
        {line.share: line.priority for line in lines},
    )
    busy = sum(line.delivering for line in lines)
    _give(lines, entitled, constants.delivery_slots - busy, room)
    changes: list[Change] = [*_turned_regular(world, busy - constants.delivery_slots)]
    emergency = [] if changes else _emergencies(world, lines, busy, room)
    extra = {line.share for line in emergency}
    regular = [line for line in lines if line.given and line.share not in extra]
    changes += [_starting(world, line, emergency=False) for line in regular]
    changes += [_starting(world, line, emergency=True) for line in emergency]
    return Decision(
        step="staging.start",
        time=world.time,
        seed=world.seed,
        changes=tuple(changes),
        notes={
            "slots": constants.delivery_slots,
            "delivering": busy,
            "shares": {line.share: _account(line, entitled, line.share in extra) for line in lines},
        },
    )


def _account(line: _Line, entitled: Mapping[str, int], emergency: bool) -> dict[str, int]:
    return {
        "priority": line.priority,
        "delivering": line.delivering,
        "queued": len(line.queue),
        "blocked": line.blocked,
        "entitled": entitled.get(line.share, 0),
        "started": len(line.given) - emergency,
        "emergency": int(emergency),
    }


def _lines(world: World, room: Room) -> list[_Line]:
    """Active shares by name (D3): those with a transfer delivering, or queued and due.

    What waits for a storage or link that is full needs no slot now, and what nobody waits for never.
    """
    delivering: Counter[str] = Counter()
    blocked: Counter[str] = Counter()
    queued: dict[str, list[Transfer]] = defaultdict(list)
    unawaited = frozenset(world.unawaited)
    for transfer in world.transfers:
        if transfer.state is TransferState.DELIVERING:
            delivering[transfer.share] += 1
        elif is_due(transfer, world.time) and transfer.id not in unawaited:
            if room.full(transfer):
                blocked[transfer.share] += 1
            else:
                queued[transfer.share].append(transfer)
    constants = world.federation.staging
    shares = sorted(delivering.keys() | queued.keys() | blocked.keys())
    if not shares:
        return []
    # Here, and not above: a server without work does without numpy.
    from numpy.random import default_rng

    # Exponential and divided by the priority: the smallest lot is then a share's in proportion to priority.
    lots = default_rng(world.seed).exponential(size=len(shares)).tolist()
    return [
        _Line(
            share=share,
            priority=base_priority(share, constants),
            delivering=delivering[share],
            queue=in_order(queued[share], world.time, constants),
            lot=lot / base_priority(share, constants),
            blocked=blocked[share],
        )
        for share, lot in zip(shares, lots, strict=True)
    ]


def is_due(transfer: Transfer, time: float) -> bool:
    """Tell whether a transfer is queued and may start at this time, in s since 1970."""
    return transfer.state is TransferState.QUEUED and (transfer.wake_at or 0) <= time


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


def _give(lines: Sequence[_Line], entitled: Mapping[str, int], free: int, room: Room) -> None:
    """Let shares take the free slots (D4).

    Shares that hold more than they are entitled to keep it until it finishes, so the free slots may not
    do for all others: the one furthest behind its priority takes first, among equals by lot. A share is
    always entitled to one: where there are fewer slots than shares, a free one goes to a share that has
    none, each in proportion to its priority, so that none of them starves (D10).
    """

    def turn(line: _Line) -> tuple[float, float, str]:
        return (line.held / line.priority, line.lot, line.share)

    def may_take(line: _Line) -> bool:
        return line.seen < len(line.queue) and line.held < max(1, entitled.get(line.share, 0))

    heap = [(turn(line), line) for line in lines if may_take(line)]
    heapify(heap)
    while free > 0 and heap:
        line = heap[0][1]
        # A share may find that all it has waits for a place that filled up in this pass: then no slot is
        # used.
        free -= line.take(room)
        if may_take(line):
            heapreplace(heap, (turn(line), line))
        else:
            heappop(heap)


def _emergencies(world: World, lines: Sequence[_Line], busy: int, room: Room) -> list[_Line]:
    """Let shares take an emergency slot: transfers wait, none has a slot, all slots are taken (D5).

    While slots change hands, shares that are more than the slots take turns: then an emergency is only that
    of a share whose first transfer came after the last slot was given. Once none was given for
    ``emergency_after`` s, it is that of any share. Otherwise emergencies would be the rule wherever shares
    outnumber slots. Where not all can have one, those that do are drawn, each in proportion to its priority.
    """
    constants = world.federation.staging
    taken = busy + sum(len(line.given) for line in lines)
    left = constants.delivery_slots + constants.max_emergency - taken
    if taken < constants.delivery_slots or left <= 0:
        return []
    delivering = (one.since for one in world.transfers if one.state is TransferState.DELIVERING)
    last_given = world.time if taken > busy else max(delivering, default=world.time)
    are_stuck = world.time - last_given >= constants.emergency_after
    without = (
        line
        for line in sorted(lines, key=lambda line: (line.lot, line.share))
        if line.queue and not line.held and (are_stuck or line.queue[0].since >= last_given)
    )
    return list(islice((line for line in without if line.take(room)), left))


def _turned_regular(world: World, beyond: int) -> list[Touch]:
    """Emergency slots that have turned regular: the oldest, down to the count beyond the slots (D5)."""
    held = [t for t in world.transfers if t.state is TransferState.DELIVERING and t.emergency]
    turned = sorted(held, key=lambda t: (t.since, t.id))[: max(0, len(held) - max(0, beyond))]
    if not turned:
        return []
    ids, attempts = tuple(t.id for t in turned), tuple(t.attempt for t in turned)
    return [Touch(kind="transfer", ids=ids, attempts=attempts, changes={"emergency": False})]


def _starting(world: World, line: _Line, emergency: bool) -> Move:
    """Start what a share was given, within the slots of all and what the share holds after it."""
    constants, transfers = world.federation.staging, line.given
    total = constants.delivery_slots + (constants.max_emergency if emergency else 0)
    # None stands for all shares together.
    limits = {None: total, line.share: line.held}
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
