"""Split registered tasks into jobs."""

from collections.abc import Iterator

from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Pass, Phase, Step, always
from pilotage.model.states import TaskState
from pilotage.model.world import World
from pilotage.tasks import splitting


def _reads(runtime: Runtime, now: Pass) -> World:
    return runtime.store.snapshots.for_split(now.time, now.seed, limit=now.batch)


def _idle(world: World) -> Iterator[str]:
    if not any(task.state is TaskState.REGISTERED for task in world.tasks):
        yield "no task is registered"


STEP = Step(
    name="split",
    place=1,
    summary="Split registered tasks into jobs, scouts first.",
    reads=_reads,
    phases=always(Phase(actor="split", decide=splitting.split)),
    idle=_idle,
    wakes_on=frozenset({("task", TaskState.REGISTERED)}),
)
