"""Let tasks start when their predecessors have ended, or hold them with the reason."""

from collections.abc import Iterator

from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import TaskState
from pilotage.model.values.step_names import CHAIN
from pilotage.policies.tasks import chaining
from pilotage.store.tasks.stages import ready_stages


def _idle(world: World) -> Iterator[str]:
    if world.stages:
        yield "every task that comes after others waits for some of them, or for a quota"
    else:
        yield "no task waits for another"


STEP = Step(
    name=CHAIN,
    place=0,
    summary="Start tasks whose predecessors have ended, and hold tasks after a failed one.",
    reads=(ready_stages,),
    phases=always(Phase(actor=CHAIN, decide=chaining.follow, in_parts=True)),
    subjects=(TASK,),
    idle=_idle,
    wakes_on=frozenset(
        ("task", state)
        for state in (TaskState.WAITING, TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED)
    ),
)
