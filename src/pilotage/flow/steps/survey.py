"""Ask storages for their free space every ten minutes, and record their answers (B18)."""

from collections.abc import Iterator

from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.documents.subjects import SITE
from pilotage.model.documents.world import World
from pilotage.model.values.phrases import plural
from pilotage.model.values.step_names import SURVEY
from pilotage.policies.staging import spaces


def _ask(runtime: Runtime, world: World, _: Decision, __: Committed) -> None:
    runtime.spaces.forget(world.space_sightings)
    answers = {(sighting.storage, sighting.url) for sighting in world.space_sightings}
    storages = [
        storage for storage in spaces.due_storages(world) if (storage.name, storage.url) not in answers
    ]
    runtime.spaces.ask(storages, world.federation.brokerage.storage_space_period)


def _idle(world: World) -> Iterator[str]:
    if waiting := spaces.due_storages(world):
        yield f"{plural(len(waiting), 'answer')} of storages awaited"
    else:
        period = world.federation.brokerage.storage_space_period
        yield f"every storage was asked for its free space within the last {period:g} s"


STEP = Step(
    name=SURVEY,
    place=14,
    summary="Ask storages for their free space.",
    reads=("space_sightings", "storage_spaces"),
    phases=always(Phase(actor=SURVEY, decide=spaces.record, act=_ask)),
    subjects=(SITE,),
    idle=_idle,
    # Answers wake it.
    goes_on=lambda runtime: runtime.wakeups.waits(SURVEY),
)
