"""Split tasks into jobs, part by part."""

from collections.abc import Iterator

from pilotage.flow.passes import Pass
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import TASKS_TO_SPLIT, TaskState
from pilotage.model.values.step_names import SPLIT
from pilotage.tasks import splitting


def _reads(runtime: Runtime, now: Pass) -> World:
    most = splitting.SLICE
    limit = min(now.batch, most)
    return runtime.store.snapshots.for_split(now.time, now.seed, limit, most, splitting.TURN, now.apart)


def _idle(world: World) -> Iterator[str]:
    if not any(task.state in TASKS_TO_SPLIT for task in world.tasks):
        yield "no task is registered, or split in part"


STEP = Step(
    name=SPLIT,
    place=1,
    summary="Split tasks into jobs, scouts first, large ones part by part.",
    reads=_reads,
    phases=always(Phase(actor=SPLIT, decide=splitting.split)),
    subjects=(TASK,),
    idle=_idle,
    wakes_on=frozenset({("task", TaskState.REGISTERED), ("task", TaskState.SPLITTING)}),
)
