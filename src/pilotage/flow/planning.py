"""Make any step's decision from a saved world, without changing anything."""

from collections.abc import Mapping
from dataclasses import replace

from pilotage.flow.brokerages import Brokerages
from pilotage.flow.loops.isolation import Failing, faults_of, within_budgets
from pilotage.flow.loops.time_limit import CALL_TIMEOUT, OutOfTime, TimeLimit
from pilotage.flow.step import Phase
from pilotage.flow.steps import step
from pilotage.flow.steps.broker import restricted
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.merged_decisions import joined
from pilotage.model.documents.projected_world import projected
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World

SET_ASIDE = "set_aside"
"""The note with the reason for each task that a policy cannot decide about, if there are any."""


def plan(name: str, world: World, limit: TimeLimit | None = None) -> Decision:
    """Decide like a step from this world, with all its phases in one decision. Raises KeyError.

    A task that needs too much counted work is left out and noted. So are the tasks of a brokerage that
    exceeds the ``limit``. Without a limit each takes all the time it needs.
    """
    planned = step(name)
    decisions: list[Decision] = []
    faults: list[Failing] = []
    after = world
    for phase in planned.phases(world, Brokerages()):
        decision, phase_faults, rest = _decided(phase, after, limit or TimeLimit(None))
        faults += phase_faults
        decisions.append(decision)
        if planned.foresees:
            after = projected(rest, decision)
    # If an account occurs twice, the first describes the original world.
    notes = {name: note for decision in reversed(decisions) for name, note in decision.notes.items()}
    aside = {str(fault.key): fault.error for fault in faults}
    return replace(joined(name, world, decisions), notes=notes | ({SET_ASIDE: aside} if aside else {}))


def set_aside(decision: Decision) -> Mapping[str, str]:
    """Return the tasks that a plan leaves out, by the text of their number, and why."""
    errors: Mapping[str, str] = decision.notes.get(SET_ASIDE, {})
    return errors


def _decided(phase: Phase, world: World, limit: TimeLimit) -> tuple[Decision, tuple[Failing, ...], World]:
    """Return the decision of a phase, the left out records, and the world without them."""
    try:
        return within_budgets(phase.timed(limit, CALL_TIMEOUT), world)
    except OutOfTime as error:
        keys = TASK.keys(restricted(world, phase.plugin) if phase.plugin else world)
        nothing = Decision(step=phase.actor, time=world.time, seed=world.seed)
        return nothing, tuple(faults_of(TASK, keys, error)), TASK.without(world, set(keys))


def idle_reasons(name: str, world: World) -> list[str]:
    """Return why the step changes nothing in this world. Raises KeyError."""
    return list(step(name).idle(world))
