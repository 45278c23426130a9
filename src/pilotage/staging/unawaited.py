"""Queued downloads that nobody waits for any more (D2)."""

from pilotage.model.decision import Decision
from pilotage.model.states import TransferState
from pilotage.model.world import World

from .groups import move


def cancel(world: World) -> Decision:
    """Cancel queued downloads that no job waits for any more: each would hold a slot for nobody.

    One that is being delivered goes on: its bytes are on their way, and the copy may serve others.
    """
    unawaited = frozenset(world.unawaited)
    transfers = (
        transfer
        for transfer in world.transfers
        if transfer.id in unawaited and transfer.state is TransferState.QUEUED
    )
    changes = move(
        transfers, TransferState.CANCELLED, "nobody waits for it any more (D2)", changes={"ended": world.time}
    )
    return Decision(step="staging.unawaited", time=world.time, seed=world.seed, changes=changes)
