"""What nodes lack for the work that their pilots were sent for: GPUs, or containers (P12)."""

from pilotage.model.circuit_breakers.empty_pilots import CONTAINERS, GPUS
from pilotage.model.documents.decision import Decision, Touch
from pilotage.model.records.work import Pilot, Requirements
from pilotage.model.values.step_names import MATCH


def note(pilot: Pilot, gpus: int, containers: bool, time: float, seed: int) -> Decision | None:
    """Record what a pilot's node lacks for its own task queue, by its report; None if that is known
    already."""
    if not pilot.requirements:
        return None
    wanted = Requirements.from_text(pilot.requirements)
    found = {GPUS: gpus >= wanted.gpus, CONTAINERS: containers or not wanted.container}
    lacks = " and ".join(need for need, has in found.items() if not has)
    if lacks == pilot.lacks:
        return None
    change = Touch(kind="pilot", ids=(pilot.id,), changes={"lacks": lacks})
    return Decision(step=MATCH, time=time, seed=seed, changes=(change,))
