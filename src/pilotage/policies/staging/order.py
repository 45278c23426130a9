"""The active shares in a queue of transfers, and the order of each share's waiting transfers (D3, D7)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pilotage.model.documents.world import World
from pilotage.model.records.constants import StagingConstants
from pilotage.model.records.states import TRANSFERS_AHEAD
from pilotage.model.records.transfer_queues import FINISHING, PREPARING, TransferQueue
from pilotage.model.records.work import Transfer
from pilotage.model.rules.transfer_limits import Room
from pilotage.model.rules.transfer_shares import base_priority
from pilotage.model.values.slot_parts import BUNDLE, parts_of, whole
from pilotage.policies.staging.sources_now import SourcesNow


@dataclass(slots=True)
class ActiveShare:
    """A share with transfers in a queue: a count of the ones with slots, and the waiting ones in order.

    The count is in parts of slots; a slot has ``bundle`` parts (D8). ``prepared`` counts prepared transfers
    that wait for delivery; the queue of preparing needs it. ``lot`` is a random number of this pass: shares
    have the lowest lot in proportion to priority. ``started`` are the transfers that get a slot in this pass.
    ``examined`` counts the transfers that this pass has tried.
    """

    share: str
    priority: int
    holding: int
    queue: Sequence[Transfer]
    lot: float
    bundle: int = BUNDLE
    prepared: int = 0
    blocked: int = 0
    started: list[Transfer] = field(default_factory=list)
    examined: int = 0

    def parts_of(self, transfer: Transfer) -> int:
        """Return the parts of a slot that a transfer takes."""
        return parts_of(transfer.size_class, self.bundle)

    @property
    def parts_in_use(self) -> int:
        """Return the parts of slots that the share uses."""
        return self.holding + sum(map(self.parts_of, self.started))

    @property
    def useful_slots(self) -> int:
        """Return the number of slots that all its transfers need, with slots or waiting."""
        return whole(self.holding + sum(map(self.parts_of, self.queue)), self.bundle)

    @property
    def turn(self) -> tuple[float, float, str]:
        """Return a sort key for the next slot: the share with the fewest slots for its priority comes
        first."""
        return ((self.parts_in_use + self.prepared) / self.priority, self.lot, self.share)

    def needs(self, room: Room) -> int:
        """Return the parts of a slot that the next transfer with room takes; 0 if there is none."""
        while self.examined < len(self.queue):
            if not room.full(self.queue[self.examined]):
                return self.parts_of(self.queue[self.examined])
            self.examined += 1
        return 0

    def take(self, room: Room) -> None:
        """Give the transfer that ``needs`` has chosen its part of a slot."""
        transfer = self.queue[self.examined]
        self.examined += 1
        room.take(transfer)
        self.started.append(transfer)


def active_shares(
    world: World, queue: TransferQueue, room: Room, leaving: Collection[int] = ()
) -> list[ActiveShare]:
    """Return the active shares of a queue by name (D3): they have a slot, or a transfer that is due.

    A transfer needs no slot now if its storage or link is full, if no job waits for it, or if this server
    cannot move it. Transfers that are ``leaving`` return their slot in the same decision.
    """
    holding: Counter[str] = Counter()
    prepared: Counter[str] = Counter()
    blocked: Counter[str] = Counter()
    queued: dict[str, list[Transfer]] = defaultdict(list)
    needless = frozenset(world.unawaited) | _unable(world, queue)
    constants = world.federation.staging
    bundle = constants.files_per_slot
    for transfer in world.transfers:
        if transfer.state is queue.holding and transfer.id not in leaving:
            holding[transfer.share] += parts_of(transfer.size_class, bundle)
        elif queue is PREPARING and transfer.state in TRANSFERS_AHEAD:
            prepared[transfer.share] += parts_of(transfer.size_class, bundle)
        elif is_due(transfer, queue, world.time) and transfer.id not in needless:
            if room.full(transfer):
                blocked[transfer.share] += 1
            else:
                queued[transfer.share].append(transfer)
    names = sorted(holding.keys() | queued.keys() | blocked.keys())
    return [
        ActiveShare(
            share=share,
            priority=base_priority(share, constants),
            holding=holding[share],
            queue=in_order(queued[share], world.time, constants),
            lot=lot / base_priority(share, constants),
            bundle=bundle,
            prepared=prepared[share],
            blocked=blocked[share],
        )
        for share, lot in zip(names, _lots(world.seed, len(names)), strict=True)
    ]


def _unable(world: World, queue: TransferQueue) -> frozenset[int]:
    """Return waiting transfers of a queue that this server cannot move. Other servers may."""
    if not world.unable or queue is FINISHING:
        return frozenset()
    now = SourcesNow(world)
    return frozenset(
        transfer.id
        for transfer in world.transfers
        if transfer.state is queue.waiting and now.is_unable(transfer)
    )


def _lots(seed: int, count: int) -> list[float]:
    if count < 2:
        return [0.0] * count
    # Import it here: a server without work never loads numpy.
    from numpy.random import default_rng

    # Divide exponential draws by the priority: then shares have the smallest in proportion to their priority.
    return list(default_rng(seed).exponential(size=count).tolist())


def is_due(transfer: Transfer, queue: TransferQueue, time: float) -> bool:
    """Return whether a transfer waits in a queue and may have a slot at this time, in s since 1970."""
    return transfer.state is queue.waiting and (transfer.wake_at or 0) <= time


def in_order(transfers: Iterable[Transfer], time: float, constants: StagingConstants) -> list[Transfer]:
    """Return waiting transfers of one share in their order: by DTR priority, then age (D3, D7).

    After ``ageing_timeout`` a transfer gains 1 for every full ``ageing_period`` of waiting, up to the highest
    DTR priority queued here. Among equals, it goes first because it is older. Only the order uses the gain.
    It does not change the transfer's priority.
    """
    waiting = list(transfers)
    highest = max((transfer.priority for transfer in waiting), default=0)

    def place(transfer: Transfer) -> tuple[int, float, int]:
        overdue = max(0.0, time - transfer.since - constants.ageing_timeout)
        aged = transfer.priority + int(overdue // constants.ageing_period)
        return (-min(aged, highest), transfer.created, transfer.id)

    return sorted(waiting, key=place)
