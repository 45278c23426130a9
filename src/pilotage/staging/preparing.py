"""Transfers are prepared: their source is settled, and as many wait for their delivery as may (D8, D11)."""

from collections import defaultdict

from pilotage.model.decision import Decision, Move, Value
from pilotage.model.sources import Sources
from pilotage.model.states import TransferState
from pilotage.model.transfer_queues import PREPARING
from pilotage.model.work import Transfer
from pilotage.model.world import World

from .groups import move
from .slots import AHEAD, Slots


def prepare(world: World) -> Decision:
    """Settle the sources of those that have a slot of preparing, and give the slots to others (D8).

    No more than ``max_prepared`` are prepared ahead of their delivery. Past that go the ``highest_pass`` of
    the highest DTR priority of all shares that wait (D11) and, as in an emergency, one of a share that has
    nothing prepared (D5): else what is delivered slowly would keep others from their slots.
    """
    settled = _settled(world)
    slots = Slots(world, PREPARING, leaving=frozenset(id_ for one in settled for id_ in one.ids))
    failed = sum(len(one.ids) for one in settled if one.target is TransferState.FAILED)
    ahead = sum(one.state in AHEAD for one in world.transfers) - failed
    bound = world.federation.staging.max_prepared
    slots.give(bound - ahead, is_bound=ahead >= bound)
    changes = (*settled, *slots.changes({"wake_at": None}))
    passing = _highest(slots, ahead + slots.given - bound)
    changes += slots.pass_bound(passing, {"wake_at": None})
    notes = slots.notes(prepared=ahead, bound=bound, passing=len(passing))
    return Decision(step="staging.prepare", time=world.time, seed=world.seed, changes=changes, notes=notes)


def _settled(world: World) -> list[Move]:
    """PREPARING->PREPARED, or ->FAILED where no storage that may be read holds the file.

    Links were measured and replicas came and went since a transfer was asked for: a first attempt takes the
    source that is best now. Later ones keep theirs, which ``retries`` took in turn, while it still serves.
    """
    sources = Sources(world.federation)
    holders: dict[str, set[str]] = defaultdict(set)
    for replica in world.replicas:
        holders[replica.file].add(replica.storage)
    chosen: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in world.transfers:
        if transfer.state is TransferState.PREPARING:
            ranked = sources.ranked(holders[transfer.file], transfer.destination)
            keeps = transfer.source_path or (transfer.attempt > 1 and transfer.source in ranked)
            chosen[transfer.source if keeps else next(iter(ranked), "")].append(transfer)
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


def _highest(slots: Slots, beyond: int) -> list[Transfer]:
    """Return those that may pass the bound, of which ``beyond`` are past it already (D11)."""
    constants = slots.world.federation.staging
    if beyond < 0:
        return []
    left = min(constants.highest_pass - beyond, slots.total - slots.busy - slots.given)
    given = {one.id for line in slots.shares for one in line.given}
    waiting = (one for line in slots.shares for one in line.queue if one.id not in given)
    highest = sorted(waiting, key=lambda one: (-one.priority, one.created, one.id))
    return [one for one in highest[: constants.highest_pass] if not slots.room.full(one)][: max(0, left)]
