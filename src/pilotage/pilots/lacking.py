"""What nodes lack for the work that their pilots were sent for: GPUs, or containers (P12)."""

from collections.abc import Callable, Iterable, Mapping

from pilotage.model.documents.decision import Decision, Touch
from pilotage.model.records.work import Pilot, Requirements
from pilotage.model.values.step_names import MATCH

NEEDS: Mapping[str, Callable[[Requirements], bool]] = {
    "GPUs": lambda wanted: wanted.gpus > 0,
    "containers": lambda wanted: wanted.container,
}
"""What queues promise for all their nodes, and which task queues need it."""


def note(pilot: Pilot, gpus: int, containers: bool, time: float, seed: int) -> Decision | None:
    """Record what a pilot's node lacks for its own task queue, by its report; None if that is known
    already."""
    if not pilot.requirements:
        return None
    wanted = Requirements.from_text(pilot.requirements)
    found = {"GPUs": gpus >= wanted.gpus, "containers": containers or not wanted.container}
    lacks = " and ".join(need for need, has in found.items() if not has)
    if lacks == pilot.lacks:
        return None
    change = Touch(kind="pilot", ids=(pilot.id,), changes={"lacks": lacks})
    return Decision(step=MATCH, time=time, seed=seed, changes=(change,))


def is_missed(lacks: str, wanted: Requirements) -> bool:
    """Return whether jobs need something that a node ``lacks``."""
    return any(need in lacks and asks(wanted) for need, asks in NEEDS.items())


def made_for(pilots: Iterable[Pilot], need: str) -> list[Pilot]:
    """Return the pilots made for task queues with this need."""
    pilots = list(pilots)
    texts = {pilot.requirements for pilot in pilots if pilot.requirements}
    asking = {text for text in texts if NEEDS[need](Requirements.from_text(text))}
    return [pilot for pilot in pilots if pilot.requirements in asking]
