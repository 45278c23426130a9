"""Slots of a queue of transfers are given to those that wait in it (D3 to D8, D10)."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Any

from pilotage.model.documents.decision import Change, Decision, Move, Touch, Value
from pilotage.model.documents.world import World
from pilotage.model.records.capacity_claims import Claim
from pilotage.model.records.counters import TRANSFERS_BY_SHARE
from pilotage.model.records.states import TRANSFERS_AHEAD, TransferState
from pilotage.model.records.transfer_queues import DELIVERING, PREPARING, TransferQueue
from pilotage.model.records.work import Transfer
from pilotage.model.rules.transfer_limits import Place, Room
from pilotage.model.values.slot_parts import parts_of, whole

from .order import ActiveShare, active_shares
from .shares import apportion
from .sources_now import room_of

REGULAR = "given a slot (D3)"
EMERGENCY = "given an emergency slot (D5)"
PASSING = "passes the bound on what is prepared (D11)"
"""The ways to a slot, as the history of a transfer tells them."""


def start(world: World) -> Decision:
    """Give the slots of delivering to what is prepared (D3 to D8).

    What is delivered and waits to be finished holds back new deliveries once it is as much as there are
    slots, so that it never grows without bound. Limits of storages and links are claimed like slots.
    """
    slots = Slots(world, DELIVERING)
    waiting = (one for one in world.transfers if one.state is TransferState.DELIVERED)
    delivered = sum(parts_of(one.size_class, slots.bundle) for one in waiting)
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
    """The slots of one queue in one pass, counted by their parts (D8).

    A slot is in use while its transfer is in the state of ``queue.holding``, so all of D5 follows from one
    count: transfers beyond the slots hold emergency slots, and while there are any, nothing regular starts;
    each that gives its slot back turns one of them regular, and in such a pass no other begins. Two claims
    hold this at commit, whoever else decides at the same time: regular slots never take the total past the
    number of slots nor emergencies past ``max_emergency`` more, and no share passes what it is entitled to.
    ``leaving`` are transfers that give their slot back in the same decision, before others take one.
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
            {line.share: line.wanted for line in self.shares},
            {line.share: line.priority for line in self.shares},
            {line.share: line.lot for line in self.shares},
        )

    @property
    def total(self) -> int:
        """Slots that there are, besides emergencies."""
        return self.queue.slots(self.world.federation.staging)

    @property
    def bundle(self) -> int:
        """Parts of a slot."""
        return self.world.federation.staging.files_per_slot

    @property
    def parts(self) -> int:
        """Parts of the slots that there are."""
        return self.total * self.bundle

    @property
    def taken(self) -> int:
        """Parts of slots that are in use once those that get one in this pass have it."""
        return sum(line.held for line in self.shares)

    @property
    def given(self) -> int:
        """Transfers that get a slot in this pass."""
        return sum(len(line.given) for line in self.shares)

    def give(self, parts: int, most: int | None = None, *, is_bound: bool = False) -> None:
        """Give free slots to shares, so many ``parts`` and ``most`` transfers, then those of emergencies.

        With ``is_bound`` a share that has nothing in the queue may pass ``most`` as in an emergency.
        """
        free = min(self.parts - self.busy, parts)
        self._give_free(free, len(self.world.transfers) if most is None else most)
        self._turned = self._turned_regular()
        if not self._turned and (is_bound or self.taken > self.parts - self.bundle):
            self._give_emergencies()

    def _give_free(self, free: int, most: int) -> None:
        """Let shares take the free slots (D4).

        Shares that hold more than they are entitled to keep it until it finishes, so the free slots may not
        do for all others: the one furthest behind its priority takes first, among equals by lot. A share is
        always entitled to one: where there are fewer slots than shares, a free one goes to a share that has
        none, each in proportion to its priority, so that none of them starves (D10). Who is first and needs a
        whole slot waits until enough small files have left theirs, and all others with it: else these would
        always take the parts that fall free.
        """
        heap = [(line.turn, line) for line in self.shares if self._may_take(line)]
        heapify(heap)
        while most > 0 and heap:
            line = heap[0][1]
            if not self._may_take(line):
                heappop(heap)  # another took the last room that there was for it
                continue
            if line.needs(self.room) > free:
                return
            while True:
                free, most = free - line.needs(self.room), most - 1
                line.take(self.room)
                # A slot that holds small files is filled while there are any.
                fills = line.held % self.bundle and line.needs(self.room) == 1 <= min(free, most)
                if not (fills and self._may_take(line)):
                    break
            if self._may_take(line):
                heapreplace(heap, (line.turn, line))
            else:
                heappop(heap)

    def _may_take(self, line: ActiveShare) -> bool:
        """Tell whether the next of a share has room, and is within what the share is entitled to."""
        needs = line.needs(self.room)
        return 0 < needs <= self.bundle * max(1, self.entitled.get(line.share, 0)) - line.held

    def _give_emergencies(self) -> None:
        """Let shares take an emergency slot: transfers wait, none has a slot, all are taken by others (D5).

        While slots change hands, shares that are more than the slots take turns: then an emergency is only
        that of a share whose first transfer came after the last slot was given. Once none was given for
        ``emergency_after`` s, it is that of any share. Otherwise emergencies would be the rule wherever
        shares outnumber slots. Where not all can have one, those that do are drawn, each in proportion to
        its priority.
        """
        constants, now = self.world.federation.staging, self.world.time
        # What is prepared ahead was given its slot when the last of it came; the slot itself is free again.
        states = TRANSFERS_AHEAD if self.queue is PREPARING else (self.queue.holding,)
        held = (one.since for one in self.world.transfers if one.state in states)
        last_given = now if self.given else max(held, default=now)
        are_stuck = now - last_given >= constants.emergency_after
        without = (
            line
            for line in sorted(self.shares, key=lambda line: (line.lot, line.share))
            if line.needs(self.room) and not line.held and not line.prepared
            if are_stuck or line.queue[0].since >= last_given
        )
        left = max(0, (self.total + constants.max_emergency) * self.bundle - self.taken) // self.bundle
        for line in islice(without, left):
            line.take(self.room)
            self.emergencies.add(line.share)

    def _turned_regular(self) -> list[Touch]:
        """Emergency slots that have turned regular: the oldest, down to what is beyond the slots (D5)."""
        held = [one for one in self.world.transfers if self._holds(one) and one.emergency]
        within = sum(parts_of(one.size_class, self.bundle) for one in held) - max(0, self.busy - self.parts)
        turned = []
        for transfer in sorted(held, key=lambda t: (t.since, t.id)):
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
        """Return the moves of those that were given a slot, with these columns set."""
        changes: list[Change] = [*self._turned]
        for cause in (REGULAR, EMERGENCY):
            for line in self.shares:
                if (line.share in self.emergencies) is (cause is EMERGENCY):
                    changes += self._moves(line, line.given, cause, values)
        return tuple(changes)

    def pass_bound(self, transfers: Sequence[Transfer], values: Mapping[str, Value]) -> tuple[Move, ...]:
        """Give slots to these too, and return their moves: they pass the bound on what is prepared (D11)."""
        moves: list[Move] = []
        for line in self.shares:
            if mine := [one for one in transfers if one.share == line.share]:
                line.given += mine
                moves += self._moves(line, mine, PASSING, values)
        return tuple(moves)

    def _moves(
        self, line: ActiveShare, given: Iterable[Transfer], cause: str, values: Mapping[str, Value]
    ) -> list[Move]:
        """Move what a share was given: one move for all that touch the same places, and take as much."""
        alike: dict[tuple[tuple[Place, ...], int], list[Transfer]] = defaultdict(list)
        for transfer in given:
            alike[self.room.bounded(transfer), parts_of(transfer.size_class, self.bundle)].append(transfer)
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
            for (places, parts), transfers in alike.items()
        ]

    def _claims(self, line: ActiveShare, cause: str, parts: int) -> tuple[Claim, ...]:
        """Claim the slots of all, what the share holds then, and in preparing what is prepared ahead."""
        constants = self.world.federation.staging
        more = constants.max_emergency if cause is EMERGENCY else 0
        passing = 0 if cause is REGULAR else constants.highest_pass
        # None stands for all shares together.
        limits: list[tuple[str | None, tuple[TransferState, ...], int, int]] = [
            (None, (self.queue.holding,), (self.total + more) * self.bundle, parts),
            (line.share, (self.queue.holding,), line.held, parts),
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
        """Return the account of the queue, by its name: its slots, and the numbers of each share."""
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
            "started": len(line.given) - emergency,
            "emergency": int(emergency),
        }
