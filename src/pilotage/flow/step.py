"""Declarations of steps, from which loops, wake-ups, plans and documentation derive, and how to take one."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pilotage.model.decision import Committed, Decision
from pilotage.model.decision_parts import parts
from pilotage.model.foreseen import foreseen
from pilotage.model.joining import joined, parted
from pilotage.model.states import Kind, State
from pilotage.model.world import World

from .brokerages import Brokerages
from .passes import Pass

if TYPE_CHECKING:
    from .runtime import Runtime

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One policy of a step.

    ``actor`` is named in the events of what it moves. ``act`` does, through ports and without blocking, what
    follows from what was committed of its decision; it is called after every commit, also of an empty one.
    With ``in_parts`` the moves of many records, which do not rest on each other, are committed part by part.
    """

    actor: str
    decide: Callable[[World], Decision]
    act: Callable[["Runtime", World, Decision, Committed], None] | None = None
    in_parts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a job's way.

    ``place`` orders the steps in lists. ``prepare`` takes in what was left for the step from outside, before
    a pass reads its world; a plan does not call it. ``reads`` takes the snapshot; a step without it is asked
    for by pilots and has no loop. ``phases`` are its policies for a world, in order; with ``rereads`` each of
    them sees what the one before it has changed, and with ``foresees`` without reading again: then those of
    one actor are committed together. ``wakes_on`` are the states of records that give it
    something to do, and ``idle`` says why it changes nothing in a world. A pass that changed something is
    followed by another at once, where ``goes_on`` does not say that it would find nothing.
    """

    name: str
    place: int
    summary: str
    phases: Callable[[World, Brokerages], Sequence[Phase]]
    idle: Callable[[World], Iterator[str]]
    prepare: Callable[["Runtime"], None] | None = None
    reads: Callable[["Runtime", Pass], World] | None = None
    rereads: bool = False
    foresees: bool = False
    wakes_on: frozenset[tuple[Kind, State]] = frozenset()
    goes_on: Callable[["Runtime"], bool] = lambda _runtime: True

    @property
    def has_loop(self) -> bool:
        """Tell whether a loop takes this step."""
        return self.reads is not None


def always(*phases: Phase) -> Callable[[World, Brokerages], Sequence[Phase]]:
    """The same phases for every world."""
    return lambda _world, _brokerages: phases


def take(step: Step, runtime: "Runtime", now: Pass) -> int:
    """Take one pass of a step; returns how many records were moved or made.

    A policy that fails is logged and keeps only its own records waiting.
    """
    if step.reads is None:
        raise ValueError(f"step {step.name} has no pass of its own")
    if step.prepare is not None:
        step.prepare(runtime)
    world = step.reads(runtime, now)
    phases = step.phases(world, runtime.brokerages)
    if step.foresees:
        return _taken_together(step, runtime, world, phases)
    changed = 0
    for number, phase in enumerate(phases):
        if number and step.rereads:
            world = step.reads(runtime, now)
        if (decision := _decided(step, phase, world)) is None:
            continue
        for part in parts(decision) if phase.in_parts else (decision,):
            committed = runtime.store.commit(part, phase.actor)
            changed += records_changed(committed)
            if phase.act is not None:
                phase.act(runtime, world, part, committed)
    return changed


def _decided(step: Step, phase: Phase, world: World) -> Decision | None:
    """The decision of a phase; None where its policy fails, which is logged."""
    try:
        return phase.decide(world)
    except Exception:
        log.exception("step %s: the policy of %s failed; what it decides waits", step.name, phase.actor)
        return None


def _taken_together(step: Step, runtime: "Runtime", world: World, phases: Sequence[Phase]) -> int:
    """Decide phase after phase, each from the world as those before it leave it; one commit for each actor.

    What does not hold any more is handed back, and with it what rests on it.
    """
    changed = 0
    for actor, own in groupby(phases, key=lambda phase: phase.actor):
        taken: list[tuple[Phase, Decision, World]] = []
        after = world
        for phase in own:
            if (decision := _decided(step, phase, after)) is not None:
                after = foreseen(after, decision) if decision.changes else after
                taken.append((phase, decision, after))
        decisions = [decision for _, decision, _ in taken]
        committed = runtime.store.commit(joined(step.name, world, decisions), actor)
        changed += records_changed(committed)
        for (phase, decision, hoped), told in zip(taken, parted(committed, decisions), strict=True):
            if phase.act is not None:
                phase.act(runtime, world, decision, told)
            if not committed.handed_back:
                world = hoped
            elif decision.changes:
                world = foreseen(world, decision, told)
    return changed


def records_changed(committed: Committed) -> int:
    """Count the records that a commit moved, touched or made."""
    moved = sum(len(ids) for ids in committed.accepted)
    made = sum(1 for ids in committed.created for record in ids if record is not None)
    return moved + made
