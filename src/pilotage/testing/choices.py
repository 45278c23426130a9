"""Decide with the production brokerage, and read its choices and refusals."""

from typing import Any

from pilotage.model.documents.decision import Choice, Decision, Refusal
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.work import JobKind
from pilotage.policies.brokerage.production import Production
from pilotage.testing.records import jobs, task
from pilotage.testing.worlds import world


def decide(of: World) -> Decision:
    """Return the decision of the production brokerage with its default options."""
    return Production().decide(of)


def only_choice(of: World) -> Choice:
    """Return the only choice in a world with one group of similar jobs."""
    (choice,) = decide(of).choices
    return choice


def refusals(choice: Choice) -> dict[str, set[str]]:
    """Return the refused queues by rule number."""
    queues: dict[str, set[str]] = {}
    for refusal in choice.refusals:
        queues.setdefault(refusal.rule, set()).update(refusal.queues)
    return queues


def refusal(choice: Choice, rule: str) -> Refusal:
    """Return the one refusal of a rule."""
    (only,) = [item for item in choice.refusals if item.rule == rule]
    return only


def refused(of: Federation, rule: str, *, kind: JobKind = "normal", **spec: Any) -> set[str]:
    """Return the queues that a rule refuses to a task's job in a world without anything else."""
    submission = task(**spec)
    return refused_in(world(of, submission, jobs=jobs(submission, kind=kind)), rule)


def refused_in(of: World, rule: str) -> set[str]:
    """Return the queues that a rule refuses in a world with one group of similar jobs."""
    return refusals(only_choice(of)).get(rule, set())
