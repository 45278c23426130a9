"""Jobs that will wait until somebody acts: no queue takes them, and no passing of time changes that."""

from collections.abc import Iterator, Sequence

from pilotage.explain.analysis import Obstacle, obstacles
from pilotage.explain.words import amount, number
from pilotage.model.documents.decision import Choice, Refusal
from pilotage.model.values.phrases import plural

SHOWN = 2
"""Obstacles that are named, those that stand alone in the way at most queues first."""


def lasting(choice: Choice) -> tuple[Refusal, ...]:
    """Return the refusals that somebody must act to lift: space on a storage does not free itself (B18)."""
    return tuple(one for one in choice.refusals if one.mend != "wait" or one.rule == "B18")


def of_choices(choices: Sequence[Choice]) -> Iterator[str]:
    """Say of each kind of jobs that no queue will take it until somebody acts, and what stands in the way."""
    for choice in choices:
        found = lasting(choice)
        refused = {queue for one in found for queue in one.queues}
        if choice.placed or not choice.considered or len(refused) < choice.considered:
            continue
        # Of a task that names its queues, what others would say is of no interest.
        others = {queue for one in found if one.rule == "B2" for queue in one.queues}
        named = [one for one in found if one.rule != "B2" and not others.issuperset(one.queues)]
        shown = obstacles(named or found)[:SHOWN]
        ways = "; ".join(told(one) for one in shown)
        yield f"no queue takes its {_kind(choice.job_kind)} until somebody acts: {ways}"


def _kind(kind: str) -> str:
    return {"scout": "scouts", "merge": "merge jobs"}.get(kind, "jobs")


def told(one: Obstacle) -> str:
    """Return what stands in the way: its name, where, what is needed, and who can act."""
    needed = ""
    if one.best is not None:
        needed = f", {amount(one.need, one.unit)} needed and {number(one.best)} there at best"
    return f"{one.name} at {plural(one.queues, 'queue')}{needed}, {one.action}"
