"""Split tasks into jobs, in parts."""

from collections.abc import Iterator

from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import TASKS_TO_SPLIT, TaskState
from pilotage.model.values.step_names import SPLIT
from pilotage.policies.tasks import splitting
from pilotage.store.jobs.world import throttled_jobs
from pilotage.store.tasks.world import unsplit_tasks


def _idle(world: World) -> Iterator[str]:
    if not any(task.state in TASKS_TO_SPLIT for task in world.tasks):
        yield "no task is registered, or split in part"


STEP = Step(
    name=SPLIT,
    place=1,
    summary="Split tasks into jobs, scouts first, large ones part by part.",
    reads=(unsplit_tasks(splitting.SLICE, splitting.TURN), "task_counts", throttled_jobs(splitting.SLICE)),
    phases=always(Phase(actor=SPLIT, decide=splitting.split)),
    subjects=(TASK,),
    idle=_idle,
    wakes_on=frozenset({("task", TaskState.REGISTERED), ("task", TaskState.SPLITTING)}),
)
