"""Transfers are prepared: their source is settled, and as many wait for their delivery as may (D8, D11)."""

from collections import defaultdict

from pilotage.model.documents.decision import Decision, Move, Value
from pilotage.model.documents.world import World
from pilotage.model.records.states import TRANSFERS_AHEAD, TransferState
from pilotage.model.records.storage_rests import resting_at
from pilotage.model.records.transfer_queues import PREPARING
from pilotage.model.records.work import Transfer

from .groups import move
from .slots import Slots
from .sources_now import SourcesNow

TAKEN_WITHIN = 60.0
"""Seconds within which a server that can move what is prepared takes it, if it has a slot."""


def prepare(world: World) -> Decision:
    """Settle the sources of those that have a slot of preparing, and give the slots to others (D8).

    No more than ``max_prepared`` are prepared ahead of their delivery. Past that go the ``highest_pass`` of
    the highest DTR priority of all shares that wait (D11) and, as in an emergency, one of a share that has
    nothing prepared (D5): else what is delivered slowly would keep others from their slots.
    """
    settled = (*_settled(world), *_put_back(world), *_left_to_others(world))
    slots = Slots(world, PREPARING, leaving=frozenset(id_ for one in settled for id_ in one.ids))
    gone = sum(len(one.ids) for one in settled if one.target is not TransferState.PREPARED)
    ahead = sum(one.state in TRANSFERS_AHEAD for one in world.transfers) - gone
    bound = world.federation.staging.max_prepared
    slots.give(slots.parts, bound - ahead, is_bound=ahead >= bound)
    changes = (*settled, *slots.changes({"wake_at": None}))
    passing = _highest(slots, ahead + slots.given - bound)
    changes += slots.pass_bound(passing, {"wake_at": None})
    notes = slots.notes(prepared=ahead, bound=bound, passing=len(passing))
    return Decision(step="staging.prepare", time=world.time, seed=world.seed, changes=changes, notes=notes)


def _settled(world: World) -> list[Move]:
    """PREPARING->PREPARED, or ->FAILED where no storage that may be read holds the file."""
    now = SourcesNow(world)
    chosen: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in world.transfers:
        if transfer.state is TransferState.PREPARING:
            chosen[now.settled(transfer)].append(transfer)
    moves: list[Move] = []
    for source, transfers in sorted(chosen.items()):
        if source:
            changes: dict[str, Value] = {"source": source, "emergency": False}
            moves += move(transfers, TransferState.PREPARED, "its source is settled", changes=changes)
        else:
            error = "no storage from which it may be read holds it any more"
            over: dict[str, Value] = {"error": error, "ended": world.time, "emergency": False}
            moves += move(transfers, TransferState.FAILED, "out of sources", changes=over)
    return moves


def _put_back(world: World) -> tuple[Move, ...]:
    """PREPARED->QUEUED of what waits for a storage that rests (F4).

    There another source may be found for it, and it takes no room from what can be delivered.
    """
    rests = resting_at(world.storage_rests, world.time)
    waiting = [
        one
        for one in world.transfers
        if one.state is TransferState.PREPARED
        and any(rest.concerns(one.source, one.destination) for rest in rests)
    ]
    return move(waiting, TransferState.QUEUED, "put back: its storage rests (F4)")


def _left_to_others(world: World) -> tuple[Move, ...]:
    """PREPARED->QUEUED of what this server cannot move and no other has taken, where it fills the bound.

    What can be moved here would wait behind it for a server that may not come back.
    """
    ahead = sum(one.state in TRANSFERS_AHEAD for one in world.transfers)
    if not world.unable or ahead < world.federation.staging.max_prepared:
        return ()
    now = SourcesNow(world)
    left = [
        one
        for one in world.transfers
        if one.state is TransferState.PREPARED
        and world.time - one.since > TAKEN_WITHIN
        and now.is_unable(one)
    ]
    return move(left, TransferState.QUEUED, "put back: no server that can move it has taken it")


def _highest(slots: Slots, beyond: int) -> list[Transfer]:
    """Return those that may pass the bound, of which ``beyond`` are past it already (D11)."""
    constants = slots.world.federation.staging
    if beyond < 0:
        return []
    left = min(constants.highest_pass - beyond, (slots.parts - slots.taken) // slots.bundle)
    given = {one.id for line in slots.shares for one in line.given}
    waiting = (one for line in slots.shares for one in line.queue if one.id not in given)
    highest = sorted(waiting, key=lambda one: (-one.priority, one.created, one.id))
    return [one for one in highest[: constants.highest_pass] if not slots.room.full(one)][: max(0, left)]
