"""Move on what has waited too long, or whose pilot has gone silent (rules T)."""

from collections.abc import Iterator

from pilotage.flow.idle_reasons import counted
from pilotage.flow.runtime import Runtime
from pilotage.flow.scratch import clear
from pilotage.flow.step import Pass, Phase, Step, always
from pilotage.model.states import LIVE_PILOTS, PilotState
from pilotage.model.world import World
from pilotage.watchdog import timeouts


def _reads(runtime: Runtime, now: Pass) -> World:
    return runtime.store.snapshots.for_watch(now.time, now.seed, limit=now.batch)


def _idle(world: World) -> Iterator[str]:
    pilots = sum(pilot.state in LIVE_PILOTS for pilot in world.pilots)
    yield (
        f"none is late of {counted(len(world.jobs), 'job')}, {pilots} live pilots, "
        f"{len(world.transfers)} transfers"
    )


STEP = Step(
    name="watch",
    place=8,
    summary="Move on what has waited too long, or whose pilot has gone silent.",
    reads=_reads,
    phases=always(Phase(actor="watch", decide=timeouts.watch, act=clear)),
    idle=_idle,
    wakes_on=frozenset({("pilot", PilotState.FINISHED), ("pilot", PilotState.FAILED)}),
)
