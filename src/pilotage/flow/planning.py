"""Any decision, made from a saved world, without touching anything."""

from collections.abc import Callable
from dataclasses import replace

from pilotage.model.decision import Change, Choice, Decision, Move
from pilotage.model.world import World
from pilotage.pilots import director, matcher
from pilotage.staging import settle, shares
from pilotage.watchdog import timeouts

from .steps import broker, lift


def plan(step: str, world: World) -> Decision:
    """What the step decides from this world. Raises KeyError for a step that is not in :data:`STEPS`."""
    return STEPS[step](world)


def _broker(world: World) -> Decision:
    """What is defined is brokered, and of what is pending that which would be placed is defined (B37)."""
    return joined("broker", world, [*broker.decisions(world), lift.lifted(world)])


def _stage(world: World) -> Decision:
    return joined("stage", world, [settle.settle(world), shares.start(world)])


def joined(step: str, world: World, decisions: list[Decision]) -> Decision:
    """Several decisions from one world as one; the choices that moves point at are counted on."""
    changes: list[Change] = []
    choices: list[Choice] = []
    for decision in decisions:
        changes.extend(_shifted(change, len(choices)) for change in decision.changes)
        choices.extend(decision.choices)
    return Decision(
        step=step, time=world.time, seed=world.seed, changes=tuple(changes), choices=tuple(choices)
    )


def _shifted(change: Change, by: int) -> Change:
    if isinstance(change, Move) and change.choice is not None:
        return replace(change, choice=change.choice + by)
    return change


STEPS: dict[str, Callable[[World], Decision]] = {
    "broker": _broker,
    "stage": _stage,
    "provision": director.provision,
    "match": matcher.match,
    "watch": timeouts.watch,
}
