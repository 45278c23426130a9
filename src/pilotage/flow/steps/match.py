"""Hand pilots that ask the jobs of the highest claim (P13). Pilots ask for it; it has no loop."""

from collections.abc import Iterator

from pilotage.flow.step import Phase, Step, always
from pilotage.model.states import LIVE_PILOTS, JobState
from pilotage.model.world import World
from pilotage.pilots import matcher


def _idle(world: World) -> Iterator[str]:
    if not world.requests:
        yield "no pilot asks"
    live = {pilot.id for pilot in world.pilots if pilot.state in LIVE_PILOTS}
    if gone := sorted({request.pilot for request in world.requests} - live):
        yield f"not alive: {', '.join(f'pilot {pilot}' for pilot in gone)}"
    if not any(job.state is JobState.ACTIVATED for job in world.jobs):
        yield "no job is activated"


STEP = Step(
    name="match",
    place=7,
    summary="Hand pilots that ask the jobs of the highest claim.",
    phases=always(Phase(actor="match", decide=matcher.match)),
    idle=_idle,
)
