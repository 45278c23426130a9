"""Jobs that will wait until a person acts: no queue takes them, and waiting does not help."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pilotage.explain.analysis import Obstacle, obstacles
from pilotage.explain.task_waits import of_obstacle
from pilotage.model.documents.decision import Choice, Refusal
from pilotage.model.documents.remarks import Remark

SHOWN = 2
"""Most obstacles to name."""

_JOBS = {"scout": "scouts", "merge": "merge jobs"}


def lasting(choice: Choice) -> tuple[Refusal, ...]:
    """Return the refusals that only a person can lift. Full storages (B18) count: they do not free
    themselves."""
    return tuple(refusal for refusal in choice.refusals if refusal.mend != "wait" or refusal.rule == "B18")


def of_choices(subject: str, choices: Sequence[Choice], besides: str = "") -> Iterator[Remark]:
    """Yield a warning for each obstacle that only a person can lift, one for all kinds of jobs that it
    blocks.

    Leave out the rule ``besides``, because the caller shows it already.
    """
    kinds = defaultdict[Obstacle, list[str]](list)
    for choice in choices:
        for obstacle in (
            blocker for blocker in _in_the_way(choice) if not besides or blocker.rule != besides
        ):
            kinds[obstacle].append(_JOBS.get(choice.job_kind, "jobs"))
    for obstacle, jobs in kinds.items():
        before = f"no queue takes its {' and '.join(dict.fromkeys(jobs))} until somebody acts: "
        yield replace(of_obstacle(subject, obstacle, before), kind="warning")


def _in_the_way(choice: Choice) -> Sequence[Obstacle]:
    refusals = lasting(choice)
    refused = {queue for refusal in refusals for queue in refusal.queues}
    if choice.placed or not choice.considered or len(refused) < choice.considered:
        return ()
    # If the task names its queues, obstacles at other queues do not matter.
    unnamed_queues = {queue for refusal in refusals if refusal.rule == "B2" for queue in refusal.queues}
    named = [
        refusal
        for refusal in refusals
        if refusal.rule != "B2" and not unnamed_queues.issuperset(refusal.queues)
    ]
    return obstacles(named or refusals)[:SHOWN]
