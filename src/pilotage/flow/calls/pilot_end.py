"""A pilot says that it ends; what it still held is another's from now on."""

from pilotage.flow.errors import PilotGone
from pilotage.flow.step import new_seed, take
from pilotage.model.decision import Decision, Move
from pilotage.model.states import LIVE_PILOTS, PilotState
from pilotage.pilots import reports as policy
from pilotage.store import Store


def end(store: Store, pilot: int, reason: str, now: float) -> None:
    """Take a pilot's word that it runs nothing any more. Raises :class:`PilotGone`."""
    world = store.snapshots.for_reports(now, new_seed(), pilot, (), ())
    if not world.pilots or world.pilots[0].state not in LIVE_PILOTS:
        raise PilotGone(pilot)
    actor = f"pilot:{pilot}"
    take(store, policy.receive(world, ()), actor)
    ended = Move(
        kind="pilot",
        ids=(pilot,),
        source=PilotState.RUNNING,
        target=PilotState.FINISHED,
        cause=reason,
        changes={"ended": now},
    )
    take(store, Decision(step="end", time=now, seed=world.seed, changes=(ended,)), actor)
    store.tokens.revoke_pilot(pilot)
