"""Make any step's decision from a saved world, touching nothing."""

from dataclasses import replace

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.merged_decisions import joined
from pilotage.model.documents.projected_world import projected
from pilotage.model.documents.world import World

from .brokerages import Brokerages
from .steps import step


def plan(name: str, world: World) -> Decision:
    """Decide as a step does from this world: all its phases as one decision. Raises KeyError."""
    planned = step(name)
    decisions: list[Decision] = []
    after = world
    for phase in planned.phases(world, Brokerages()):
        decisions.append(phase.decide(after))
        after = projected(after, decisions[-1]) if planned.foresees else world
    # An account that is given twice is that of the world as it was.
    notes = {name: note for decision in reversed(decisions) for name, note in decision.notes.items()}
    return replace(joined(name, world, decisions), notes=notes)


def idle_reasons(name: str, world: World) -> list[str]:
    """Tell why the step changes nothing in this world. Raises KeyError."""
    return list(step(name).idle(world))
