"""Queued downloads that nobody waits for any more (D2)."""

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.records.states import QUEUED_TRANSFERS, TransferState
from pilotage.policies.staging.groups import move


def cancel(world: World) -> Decision:
    """Cancel queued downloads that no job waits for: each would hold a slot for nobody.

    A download that is being delivered goes on: its bytes are moving, and the copy may serve others.
    """
    unawaited = frozenset(world.unawaited)
    cause = "nobody waits for it any more"
    changes = tuple(
        one
        for state in QUEUED_TRANSFERS
        for one in move(
            (one for one in world.transfers if one.id in unawaited and one.state is state),
            TransferState.CANCELLED,
            cause,
            changes={"ended": world.time},
        )
    )
    return Decision(step="staging.unawaited", time=world.time, seed=world.seed, changes=changes)
