"""Give a queue's slots to its waiting transfers (D3 to D8, D10)."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Any

from pilotage.model.documents.decision import Change, Decision, Move, Touch, Value
from pilotage.model.documents.world import World
from pilotage.model.records.counters import TRANSFERS_BY_SHARE, Claim
from pilotage.model.records.states import TRANSFERS_AHEAD, TransferState
from pilotage.model.records.transfer_queues import DELIVERING, PREPARING, TransferQueue
from pilotage.model.records.work import Transfer
from pilotage.model.rules.transfer_limits import Place, Room
from pilotage.model.values.slot_parts import parts_of, whole
from pilotage.policies.staging.order import ActiveShare, active_shares
from pilotage.policies.staging.shares import apportion
from pilotage.policies.staging.sources_now import room_of

REGULAR = "given a slot"
EMERGENCY = "given an emergency slot"
PASSING = "passes the bound on prepared transfers"
"""Causes in a transfer's history for getting a slot."""


def start(world: World) -> Decision:
    """Give the slots of delivering to prepared transfers (D3 to D8).

    If as many delivered transfers wait to be finished as there are slots, no new delivery starts, so that
    their number stays bounded. Limits of storages and links are claimed like slots.
    """
    slots = Slots(world, DELIVERING)
    waiting = (transfer for transfer in world.transfers if transfer.state is TransferState.DELIVERED)
    delivered = sum(parts_of(transfer.size_class, slots.bundle) for transfer in waiting)
    slots.give(2 * slots.parts - delivered - slots.busy)
    changes: dict[str, Value] = {"heartbeat": world.time, "started": world.time, "wake_at": None}
    changes["server"] = world.server
    return Decision(
        step="staging.start",
        time=world.time,
        seed=world.seed,
        changes=slots.changes(changes),
        notes=slots.notes(),
    )


@dataclass(slots=True)
class Slots:
    """The slots of one queue in one pass, counted in parts (D8).

    A slot is in use while its transfer is in the state ``queue.holding``, so all of D5 follows from one
    count. Transfers beyond the slots hold emergency slots. While there are any, no regular transfer starts:
    each returned slot makes one of them regular, and in such a pass no other emergency starts. Two claims
    enforce this at commit, even if other servers decide at the same time: regular slots never exceed the
    number of slots, nor emergencies ``max_emergency`` more; and no share exceeds its entitlement. ``leaving``
    are transfers that return their slot in the same decision, before others take one.
    """

    world: World
    queue: TransferQueue
    leaving: Collection[int] = ()
    room: Room = field(init=False)
    shares: list[ActiveShare] = field(init=False)
    entitled: Mapping[str, int] = field(init=False)
    busy: int = field(init=False)
    emergencies: set[str] = field(init=False, default_factory=set)
    _turned: list[Touch] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.room = room_of(self.world, self.queue)
        self.shares = active_shares(self.world, self.queue, self.room, self.leaving)
        self.busy = sum(line.holding for line in self.shares)
        self.entitled = apportion(
            self.total,
            {line.share: line.useful_slots for line in self.shares},
            {line.share: line.priority for line in self.shares},
            {line.share: line.lot for line in self.shares},
        )

    @property
    def total(self) -> int:
        """Return the number of slots, without emergencies."""
        return self.queue.slots(self.world.federation.staging)

    @property
    def bundle(self) -> int:
        """Return the number of parts of a slot."""
        return self.world.federation.staging.files_per_slot

    @property
    def parts(self) -> int:
        """Return the number of parts of all slots."""
        return self.total * self.bundle

    @property
    def parts_in_use(self) -> int:
        """Return the number of parts in use after this pass."""
        return sum(line.parts_in_use for line in self.shares)

    @property
    def starts(self) -> int:
        """Return the number of transfers that get a slot in this pass."""
        return sum(len(line.started) for line in self.shares)

    def give(self, parts: int, transfers: int | None = None, *, is_bound: bool = False) -> None:
        """Give free slots to shares (``parts`` parts and ``transfers`` transfers), then emergency slots.

        With ``is_bound``, a share without a slot may exceed ``transfers`` as in an emergency.
        """
        free = min(self.parts - self.busy, parts)
        self._give_free(free, len(self.world.transfers) if transfers is None else transfers)
        self._turned = self._turned_regular()
        if not self._turned and (is_bound or self.parts_in_use > self.parts - self.bundle):
            self._give_emergencies()

    def _give_free(self, free: int, transfers: int) -> None:
        """Give the free slots to shares (D4).

        A share with more than its entitlement keeps its slots until its transfers finish, so the free slots
        may not suffice for all others. The share with the fewest slots for its priority is first, ties by
        lot. A share is always entitled to one slot. With fewer slots than shares, a free slot goes to a share
        without one, drawn in proportion to priority, so that none starves (D10). If the first share needs a
        whole slot, all shares wait until enough small files have left theirs. Otherwise small files would
        always take the parts that become free.
        """
        heap = [(line.turn, line) for line in self.shares if self._may_take(line)]
        heapify(heap)
        while transfers > 0 and heap:
            line = heap[0][1]
            if not self._may_take(line):
                heappop(heap)  # another share took the last room at its storage or link
                continue
            if line.needs(self.room) > free:
                return
            while True:
                free, transfers = free - line.needs(self.room), transfers - 1
                line.take(self.room)
                # Fill up a slot with small files while there are any.
                fills = line.parts_in_use % self.bundle and line.needs(self.room) == 1 <= min(free, transfers)
                if not (fills and self._may_take(line)):
                    break
            if self._may_take(line):
                heapreplace(heap, (line.turn, line))
            else:
                heappop(heap)

    def _may_take(self, line: ActiveShare) -> bool:
        """Return whether a share's next transfer has room within the share's entitlement."""
        needs = line.needs(self.room)
        return 0 < needs <= self.bundle * max(1, self.entitled.get(line.share, 0)) - line.parts_in_use

    def _give_emergencies(self) -> None:
        """Give emergency slots to shares that wait without a slot while others have all slots (D5).

        With more shares than slots, shares take turns as slots become free. Then a share has an emergency
        only if its first transfer came after the last slot was given. If no share got a slot for
        ``emergency_after`` s, all waiting shares have one. Otherwise emergencies would be usual with more
        shares than slots. If there are too few emergency slots, draw the shares, in proportion to priority.
        """
        constants, now = self.world.federation.staging, self.world.time
        # In preparing the slot is free again: the newest transfer prepared ahead shows when it was given.
        states = TRANSFERS_AHEAD if self.queue is PREPARING else (self.queue.holding,)
        times = (transfer.since for transfer in self.world.transfers if transfer.state in states)
        last_given = now if self.starts else max(times, default=now)
        are_stuck = now - last_given >= constants.emergency_after
        without = (
            line
            for line in sorted(self.shares, key=lambda line: (line.lot, line.share))
            if line.needs(self.room) and not line.parts_in_use and not line.prepared
            if are_stuck or line.queue[0].since >= last_given
        )
        free = max(0, (self.total + constants.max_emergency) * self.bundle - self.parts_in_use) // self.bundle
        for line in islice(without, free):
            line.take(self.room)
            self.emergencies.add(line.share)

    def _turned_regular(self) -> list[Touch]:
        """Return changes of emergency slots that become regular: the oldest, until only transfers beyond the
        slots remain (D5)."""
        emergencies = [
            transfer for transfer in self.world.transfers if self._holds(transfer) and transfer.emergency
        ]
        within = sum(parts_of(transfer.size_class, self.bundle) for transfer in emergencies) - max(
            0, self.busy - self.parts
        )
        turned = []
        for transfer in sorted(emergencies, key=lambda t: (t.since, t.id)):
            within -= parts_of(transfer.size_class, self.bundle)
            if within < 0:
                break
            turned.append(transfer)
        if not turned:
            return []
        ids, attempts = tuple(t.id for t in turned), tuple(t.attempt for t in turned)
        return [Touch(kind="transfer", ids=ids, attempts=attempts, changes={"emergency": False})]

    def _holds(self, transfer: Transfer) -> bool:
        return transfer.state is self.queue.holding and transfer.id not in self.leaving

    def changes(self, values: Mapping[str, Value]) -> tuple[Change, ...]:
        """Return the moves of transfers that got a slot, with these columns set."""
        changes: list[Change] = [*self._turned]
        for cause in (REGULAR, EMERGENCY):
            for line in self.shares:
                if (line.share in self.emergencies) is (cause is EMERGENCY):
                    changes += self._moves(line, line.started, cause, values)
        return tuple(changes)

    def pass_bound(self, transfers: Sequence[Transfer], values: Mapping[str, Value]) -> tuple[Move, ...]:
        """Give slots to these transfers too, beyond the bound on prepared ones, and return their moves
        (D11)."""
        moves: list[Move] = []
        for line in self.shares:
            if mine := [transfer for transfer in transfers if transfer.share == line.share]:
                line.started += mine
                moves += self._moves(line, mine, PASSING, values)
        return tuple(moves)

    def _moves(
        self, line: ActiveShare, started: Iterable[Transfer], cause: str, values: Mapping[str, Value]
    ) -> list[Move]:
        """Return a share's moves: one for all transfers with the same limited places and the same parts."""
        groups: dict[tuple[tuple[Place, ...], int], list[Transfer]] = defaultdict(list)
        for transfer in started:
            groups[self.room.bounded(transfer), parts_of(transfer.size_class, self.bundle)].append(transfer)
        return [
            Move(
                kind="transfer",
                ids=tuple(transfer.id for transfer in transfers),
                attempts=tuple(transfer.attempt for transfer in transfers),
                source=self.queue.waiting,
                target=self.queue.holding,
                cause=cause,
                changes={**values, "emergency": cause is EMERGENCY},
                claims=(*self._claims(line, cause, parts), *self.room.claims(places)),
            )
            for (places, parts), transfers in groups.items()
        ]

    def _claims(self, line: ActiveShare, cause: str, parts: int) -> tuple[Claim, ...]:
        """Return claims on all slots, on the share's slots, and in preparing on the bound of prepared
        transfers."""
        constants = self.world.federation.staging
        more = constants.max_emergency if cause is EMERGENCY else 0
        passing = 0 if cause is REGULAR else constants.highest_pass
        # None means all shares together.
        limits: list[tuple[str | None, tuple[TransferState, ...], int, int]] = [
            (None, (self.queue.holding,), (self.total + more) * self.bundle, parts),
            (line.share, (self.queue.holding,), line.parts_in_use, parts),
        ]
        if self.queue is PREPARING:
            limits.append((None, TRANSFERS_AHEAD, constants.max_prepared + passing + more, 0))
        return tuple(
            Claim(
                counter=TRANSFERS_BY_SHARE,
                key=(share, None),
                states=states,
                limit=limit,
                takes=takes,
                slot=self.bundle,
            )
            for share, states, limit, takes in limits
        )

    def notes(self, **more: Any) -> dict[str, Any]:
        """Return the account of the queue under its name: its slots, and the numbers of each share."""
        account: dict[str, Any] = {
            "slots": self.total,
            "held": whole(self.busy, self.bundle),
            **more,
            "shares": {line.share: self._account(line) for line in self.shares},
        }
        return {self.queue.name: account}

    def _account(self, line: ActiveShare) -> dict[str, int]:
        emergency = line.share in self.emergencies
        return {
            "priority": line.priority,
            "held": whole(line.holding, self.bundle),
            "queued": len(line.queue),
            "blocked": line.blocked,
            "entitled": self.entitled.get(line.share, 0),
            "started": len(line.started) - emergency,
            "emergency": int(emergency),
        }
