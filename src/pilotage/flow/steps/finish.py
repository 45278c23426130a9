"""Complete tasks: go on if all scouts have ended; merge, finish or fail if all jobs have."""

from collections.abc import Iterator

from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_TASKS, JobState
from pilotage.policies.tasks import completion, scouting
from pilotage.policies.tasks.completion import FINISH
from pilotage.store.tasks.world import ended_jobs, tasks_to_complete
from pilotage.store.worlds.parts import only_where


def _idle(world: World) -> Iterator[str]:
    live = sum(task.state in LIVE_TASKS for task in world.tasks)
    yield f"none of {live} live tasks has all its jobs, or all its scouts, at their end"


STEP = Step(
    name=FINISH,
    place=8,
    summary="Measure scouts, merge outputs, and end tasks whose jobs have ended.",
    reads=(tasks_to_complete, only_where("tasks"), ended_jobs),
    phases=always(
        Phase(actor="scout", decide=scouting.conclude),
        Phase(actor=FINISH, decide=completion.complete, in_parts=True),
    ),
    subjects=(TASK,),
    idle=_idle,
    wakes_on=frozenset(
        {
            ("job", JobState.MERGING),
            ("job", JobState.FINISHED),
            ("job", JobState.FAILED),
            ("job", JobState.CLOSED),
            ("job", JobState.CANCELLED),
        }
    ),
)
