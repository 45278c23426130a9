"""Release pending jobs early once a queue would accept them (B37)."""

from collections.abc import Iterator, Sequence
from functools import partial

from pilotage.flow.brokerages import Brokerages
from pilotage.flow.held_places import held_places
from pilotage.flow.reads import startable
from pilotage.flow.step import Phase, Step
from pilotage.flow.steps.broker import lifted, plugins
from pilotage.model.documents.subjects import QUEUE, TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.values.step_names import LIFT, STAGE
from pilotage.policies.staging import lost
from pilotage.store.worlds.broker_facts import OF_JOBS, OF_PLACES, ahead, waiting_jobs
from pilotage.store.worlds.parts import only_where


def _phases(world: World, brokerages: Brokerages) -> Sequence[Phase]:
    lifting = (
        Phase(actor=LIFT, decide=partial(lifted, plugin=plugin, brokerages=brokerages), plugin=plugin)
        for plugin in plugins(world)
    )
    return Phase(actor=STAGE, decide=lost.fail), *lifting


def _idle(world: World) -> Iterator[str]:
    pending = sum(job.state is JobState.PENDING for job in world.jobs)
    yield f"no queue would take any of {pending} pending jobs" if pending else "no job is pending"


STEP = Step(
    name=LIFT,
    place=3,
    summary="Release pending jobs early once a queue would accept them.",
    reads=(
        waiting_jobs(JobState.PENDING),
        only_where("jobs"),
        ahead,
        *OF_JOBS,
        *OF_PLACES,
        startable,
        held_places,
    ),
    phases=_phases,
    asks_plugins=True,
    subjects=(TASK, QUEUE),
    idle=_idle,
)
