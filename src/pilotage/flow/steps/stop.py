"""Stop tasks after their first attempts all failed in the same way (F3)."""

from collections.abc import Iterator

from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.flow.task_cancellation import let_go
from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.values.phrases import plural
from pilotage.policies.tasks import stopping
from pilotage.policies.tasks.stopping import STOP
from pilotage.store.tasks.work import failing_alike, live_jobs
from pilotage.store.worlds.parts import only_where


def _let_go(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Let go of everything that only the stopped jobs needed: downloads, and pilots in batch systems."""
    changes = zip(decision.changes, committed.accepted, strict=True)
    closed = {
        id_ for change, ids in changes if isinstance(change, Move) and change.kind == "job" for id_ in ids
    }
    let_go(runtime, (job for job in world.jobs if job.id in closed), STOP)


def _idle(world: World) -> Iterator[str]:
    if world.failures:
        failed = plural(len(world.failures), "failed attempt")
        yield f"{failed}: not enough, or not the task's fault"
    else:
        yield "no attempt of a live task has failed lately"


STEP = Step(
    name=STOP,
    place=10,
    summary="Stop tasks after their first attempts all failed alike.",
    reads=(failing_alike, only_where("tasks"), live_jobs, "task_counts"),
    phases=always(Phase(actor=STOP, decide=stopping.stop, act=_let_go, in_parts=True)),
    subjects=(TASK,),
    idle=_idle,
    wakes_on=frozenset({("job", JobState.FAILED)}),
)
