"""Prepare transfers: settle their source, and let a limited number wait for delivery (D8, D11)."""

from collections import defaultdict

from pilotage.model.circuit_breakers.breaker import open_at
from pilotage.model.documents.decision import Decision, Move, Value
from pilotage.model.documents.moves import moves_of
from pilotage.model.documents.world import World
from pilotage.model.records.states import TRANSFERS_AHEAD, TransferState
from pilotage.model.records.transfer_queues import PREPARING
from pilotage.model.records.work import Transfer
from pilotage.policies.staging.slots import Slots
from pilotage.policies.staging.sources_now import SourcesNow

TAKEN_WITHIN = 60.0
"""Seconds after which a prepared transfer counts as not taken by any server that can move it."""


def prepare(world: World) -> Decision:
    """Settle the sources of transfers with a slot of preparing, and give the slots to others (D8).

    At most ``max_prepared`` are prepared ahead of their delivery. Two kinds may exceed that bound: the
    ``highest_pass`` transfers with the highest DTR priority of all waiting ones (D11), and as an emergency
    one transfer of a share without prepared transfers (D5). Otherwise slow deliveries would block them.
    """
    settled = (*_settled(world), *_put_back(world), *_left_to_others(world))
    slots = Slots(world, PREPARING, leaving=frozenset(id_ for move in settled for id_ in move.ids))
    gone = sum(len(move.ids) for move in settled if move.target is not TransferState.PREPARED)
    ahead = sum(transfer.state in TRANSFERS_AHEAD for transfer in world.transfers) - gone
    bound = world.federation.staging.max_prepared
    slots.give(slots.parts, bound - ahead, is_bound=ahead >= bound)
    changes = (*settled, *slots.changes({"wake_at": None}))
    passing = _highest(slots, ahead + slots.starts - bound)
    changes += slots.pass_bound(passing, {"wake_at": None})
    notes = slots.notes(prepared=ahead, bound=bound, passing=len(passing))
    return Decision(step="staging.prepare", time=world.time, seed=world.seed, changes=changes, notes=notes)


def _settled(world: World) -> list[Move]:
    """Return moves PREPARING->PREPARED, or ->FAILED if no readable storage holds the file."""
    now = SourcesNow(world)
    chosen: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in world.transfers:
        if transfer.state is TransferState.PREPARING:
            chosen[now.settled(transfer)].append(transfer)
    moves: list[Move] = []
    for source, transfers in sorted(chosen.items()):
        if source:
            changes: dict[str, Value] = {"source": source, "emergency": False}
            moves += moves_of(transfers, TransferState.PREPARED, "its source is settled", changes=changes)
        else:
            error = "no readable storage holds it now"
            over: dict[str, Value] = {"error": error, "ended": world.time, "emergency": False}
            moves += moves_of(transfers, TransferState.FAILED, "out of sources", changes=over)
    return moves


def _put_back(world: World) -> tuple[Move, ...]:
    """Return moves PREPARED->QUEUED of transfers that an open circuit breaker blocks (F4).

    In the queue they may get another source, and they take no room from deliverable transfers.
    """
    breakers = open_at(world.storage_breakers, world.time)
    waiting = [
        transfer
        for transfer in world.transfers
        if transfer.state is TransferState.PREPARED
        and any(breaker.concerns(transfer.source, transfer.destination) for breaker in breakers)
    ]
    return moves_of(waiting, TransferState.QUEUED, "put back: its storage's circuit breaker is open")


def _left_to_others(world: World) -> tuple[Move, ...]:
    """If the bound is reached, return moves PREPARED->QUEUED of transfers that this server cannot move and no
    other has taken.

    Otherwise transfers that this server can move would wait for a server that may never return.
    """
    ahead = sum(transfer.state in TRANSFERS_AHEAD for transfer in world.transfers)
    if not world.unable or ahead < world.federation.staging.max_prepared:
        return ()
    now = SourcesNow(world)
    stuck = [
        transfer
        for transfer in world.transfers
        if transfer.state is TransferState.PREPARED
        and world.time - transfer.since > TAKEN_WITHIN
        and now.is_unable(transfer)
    ]
    return moves_of(stuck, TransferState.QUEUED, "put back: no server that can move it has taken it")


def _highest(slots: Slots, excess: int) -> list[Transfer]:
    """Return the transfers that may exceed the bound, given the ``excess`` that already do (D11)."""
    constants = slots.world.federation.staging
    if excess < 0:
        return []
    free = min(constants.highest_pass - excess, (slots.parts - slots.parts_in_use) // slots.bundle)
    started = {transfer.id for line in slots.shares for transfer in line.started}
    waiting = (transfer for line in slots.shares for transfer in line.queue if transfer.id not in started)
    highest = sorted(waiting, key=lambda transfer: (-transfer.priority, transfer.created, transfer.id))
    return [transfer for transfer in highest[: constants.highest_pass] if not slots.room.full(transfer)][
        : max(0, free)
    ]
