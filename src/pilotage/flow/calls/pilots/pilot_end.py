"""Process a pilot's goodbye: from now on other pilots get its jobs."""

from collections.abc import Sequence
from dataclasses import replace

from pilotage.flow.calls.pilots.report import receive
from pilotage.flow.errors import PilotGone
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.world import Heartbeat, World
from pilotage.model.records.logs import KeptLog
from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.policies.pilots import reports as policy
from pilotage.store.pilots.reports import told_by_pilots


def end(
    runtime: Runtime, pilot: int, reason: str, log: KeptLog | None = None, is_unfit: bool = False
) -> None:
    """Record that a pilot has ended its work, and store its log. Raises ``PilotGone``.

    If its machine ``is_unfit`` for any job, the pilot fails as if it had never called (P6).
    """
    world = _world(runtime, (pilot,))
    if not world.pilots:
        raise PilotGone(pilot)
    if log:
        runtime.store.logs.put(policy.owned(world, (log,)), world.time)
    _end(runtime, world, reason, f"pilot:{pilot}", is_unfit)


def end_all(runtime: Runtime, pilots: Sequence[int], reason: str) -> None:
    """Do the same for several pilots together. Skip missing ones."""
    world = _world(runtime, pilots)
    if world.pilots:
        _end(runtime, world, reason, "pilots")


def _world(runtime: Runtime, pilots: Sequence[int]) -> World:
    """Return the world of live pilots that report to have nothing."""
    heartbeats = [Heartbeat(pilot=pilot) for pilot in pilots]
    world = runtime.world(told_by_pilots(heartbeats))
    return replace(world, pilots=tuple(pilot for pilot in world.pilots if pilot.state in LIVE_PILOTS))


def _end(runtime: Runtime, world: World, reason: str, actor: str, is_unfit: bool = False) -> None:
    # Before the end: this fails jobs that the pilots still held, and makes a pilot RUNNING that never called
    # before.
    receive(runtime, world, actor)
    ended = Move(
        kind="pilot",
        ids=tuple(pilot.id for pilot in world.pilots),
        source=PilotState.RUNNING,
        target=PilotState.FAILED if is_unfit else PilotState.FINISHED,
        cause=reason,
        changes={"ended": world.time, **({"error": reason, "heartbeat": None} if is_unfit else {})},
    )
    runtime.store.commit(Decision(step="end", time=world.time, seed=world.seed, changes=(ended,)), actor)
