"""Take a pilot's leave: what it still held goes to other pilots from now on."""

from pilotage.flow.errors import PilotGone
from pilotage.flow.runtime import Runtime
from pilotage.model.decision import Decision, Move
from pilotage.model.logs import KeptLog
from pilotage.model.states import LIVE_PILOTS, PilotState
from pilotage.pilots import reports as policy


def end(runtime: Runtime, pilot: int, reason: str, log: KeptLog | None = None) -> None:
    """Record that a pilot runs nothing any more, and keep its log. Raises :class:`PilotGone`."""
    now = runtime.clock()
    world = runtime.store.snapshots.for_reports(now, runtime.seeds(), pilot, (), ())
    if not world.pilots or world.pilots[0].state not in LIVE_PILOTS:
        raise PilotGone(pilot)
    if log:
        runtime.store.logs.put(policy.owned(world, (log,)), now)
    actor = f"pilot:{pilot}"
    # Before the end: it fails what the pilot still held, and makes one RUNNING that never called before.
    runtime.store.commit(policy.receive(world, ()), actor)
    ended = Move(
        kind="pilot",
        ids=(pilot,),
        source=PilotState.RUNNING,
        target=PilotState.FINISHED,
        cause=reason,
        changes={"ended": now},
    )
    runtime.store.commit(Decision(step="end", time=now, seed=world.seed, changes=(ended,)), actor)
