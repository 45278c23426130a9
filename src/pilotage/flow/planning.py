"""Make any step's decision from a saved world, touching nothing."""

from collections.abc import Mapping
from dataclasses import replace

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.merged_decisions import joined
from pilotage.model.documents.projected_world import projected
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World

from .brokerages import Brokerages
from .loops.isolation import Failing, faults_of, within_budgets
from .loops.time_limit import CALL_TIMEOUT, OutOfTime, TimeLimit
from .step import Phase
from .steps import step
from .steps.broker import restricted

SET_ASIDE = "set_aside"
"""The note that says of each task that a policy cannot decide about why, where there is one."""


def plan(name: str, world: World, limit: TimeLimit | None = None) -> Decision:
    """Decide as a step does from this world: all its phases as one decision. Raises KeyError.

    What a task needs more counted work for than it has is decided without it, and noted. So are the tasks of
    a brokerage that takes longer than the ``limit``; without one each has all the time it takes.
    """
    planned = step(name)
    decisions: list[Decision] = []
    faults: list[Failing] = []
    after = world
    for phase in planned.phases(world, Brokerages()):
        decision, found, left = _decided(phase, after, limit or TimeLimit(None))
        faults += found
        decisions.append(decision)
        if planned.foresees:
            after = projected(left, decision)
    # An account that is given twice is that of the world as it was.
    notes = {name: note for decision in reversed(decisions) for name, note in decision.notes.items()}
    aside = {str(fault.key): fault.error for fault in faults}
    return replace(joined(name, world, decisions), notes=notes | ({SET_ASIDE: aside} if aside else {}))


def set_aside(decision: Decision) -> Mapping[str, str]:
    """The tasks that a plan leaves out, by the text of their number, and why."""
    found: Mapping[str, str] = decision.notes.get(SET_ASIDE, {})
    return found


def _decided(phase: Phase, world: World, limit: TimeLimit) -> tuple[Decision, tuple[Failing, ...], World]:
    """The decision of a phase, what it leaves out, and the world without that."""
    try:
        return within_budgets(phase.timed(limit, CALL_TIMEOUT), world)
    except OutOfTime as error:
        keys = TASK.keys(restricted(world, phase.plugin) if phase.plugin else world)
        nothing = Decision(step=phase.actor, time=world.time, seed=world.seed)
        return nothing, tuple(faults_of(TASK, keys, error)), TASK.without(world, set(keys))


def idle_reasons(name: str, world: World) -> list[str]:
    """Tell why the step changes nothing in this world. Raises KeyError."""
    return list(step(name).idle(world))
