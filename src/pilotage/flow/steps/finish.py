"""Complete tasks: go on where all scouts have ended; merge, finish or fail where all jobs have."""

from collections.abc import Iterator

from pilotage.flow.passes import Pass
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_TASKS, JobState
from pilotage.model.values.step_names import FINISH
from pilotage.tasks import completion, scouting


def _reads(runtime: Runtime, now: Pass) -> World:
    return runtime.store.snapshots.for_completion(now.time, now.seed, limit=now.batch, apart=now.apart)


def _idle(world: World) -> Iterator[str]:
    live = sum(task.state in LIVE_TASKS for task in world.tasks)
    yield f"none of {live} live tasks has all its jobs, or all its scouts, at their end"


STEP = Step(
    name=FINISH,
    place=8,
    summary="Measure scouts, merge outputs, and end tasks whose jobs have ended.",
    reads=_reads,
    phases=always(
        Phase(actor="scout", decide=scouting.conclude),
        Phase(actor=FINISH, decide=completion.complete, in_parts=True),
    ),
    subjects=(TASK,),
    idle=_idle,
    wakes_on=frozenset({("job", JobState.MERGING), ("job", JobState.FINISHED), ("job", JobState.FAILED)}),
)
