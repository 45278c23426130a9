"""Make any step's decision from a saved world, touching nothing."""

from pilotage.model.decision import Decision
from pilotage.model.joining import joined
from pilotage.model.world import World

from .brokerages import Brokerages
from .steps import step


def plan(name: str, world: World) -> Decision:
    """Decide as a step does from this world: all its phases as one decision. Raises KeyError."""
    phases = step(name).phases(world, Brokerages())
    return joined(name, world, [phase.decide(world) for phase in phases])


def idle_reasons(name: str, world: World) -> list[str]:
    """Tell why the step changes nothing in this world. Raises KeyError."""
    return list(step(name).idle(world))
