"""Make any step's decision from a saved world, touching nothing."""

from collections.abc import Iterator
from dataclasses import replace

from pilotage.model.decision import Change, Choice, Decision, Move
from pilotage.model.world import World

from .brokerages import Brokerages
from .steps import step


def plan(name: str, world: World) -> Decision:
    """What a step decides from this world: all its phases as one decision. Raises KeyError."""
    phases = step(name).phases(world, Brokerages())
    return joined(name, world, [phase.decide(world) for phase in phases])


def idle_reasons(name: str, world: World) -> list[str]:
    """Why the step changes nothing in this world. Raises KeyError."""
    return list(step(name).idle(world))


def joined(name: str, world: World, decisions: list[Decision]) -> Decision:
    """Several decisions from one world as one; the choices that moves point at are counted on."""
    changes: list[Change] = []
    choices: list[Choice] = []
    notes: dict[str, object] = {}
    for decision in decisions:
        changes.extend(_shifted(decision.changes, len(choices)))
        choices.extend(decision.choices)
        notes.update(decision.notes)
    return Decision(
        step=name,
        time=world.time,
        seed=world.seed,
        changes=tuple(changes),
        choices=tuple(choices),
        notes=notes,
    )


def _shifted(changes: tuple[Change, ...], by: int) -> Iterator[Change]:
    for change in changes:
        if isinstance(change, Move) and change.choice is not None:
            yield replace(change, choice=change.choice + by)
        else:
            yield change
