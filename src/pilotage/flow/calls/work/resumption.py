"""Find which stages of a workflow that is submitted again need not run, and look at their outputs."""

from dataclasses import replace
from time import monotonic

from pilotage import request_budget
from pilotage.flow.calls.data import comparisons
from pilotage.flow.runtime import Runtime
from pilotage.model.records.chains import NewStage, ResumedWorkflow, StageReuse
from pilotage.model.records.inputs import TaskOutputs
from pilotage.model.values.identity import Identity
from pilotage.policies.tasks.resuming import resume

MOST_SEEN = 1000
"""Outputs that are looked at on their storages, for one submission. For others the catalogue counts."""


def decide(
    runtime: Runtime, owner: Identity, workflow: str, stages: tuple[NewStage, ...]
) -> list[StageReuse]:
    """Return what becomes of each stage. Outputs that somebody deleted at their storage are missing.

    Only tasks of the owner count: nobody else's outputs may be read. Raises RequestTooLong.
    """
    # The names by which stages read each other: of these the outputs decide too.
    read = {str(item.task) for stage in stages for item in stage.spec.inputs if isinstance(item, TaskOutputs)}
    resumed = runtime.store.resumption.read(owner, workflow, stages, read)
    seen: set[int] = set()
    left, end = MOST_SEEN, monotonic() + comparisons.TIME_LIMIT
    while True:
        # One stage may compare several times 100,000 inputs.
        by_place = dict(request_budget.asking(resume(resumed)))
        reuses = [by_place[at] for at in range(len(stages))]
        skipped = [reuse.task for reuse in reuses if reuse.is_skipped and reuse.task is not None]
        unseen = [task for task in skipped if task not in seen]
        if not unseen or not left:
            return reuses
        lost: dict[int, int] = {}
        for task in unseen:
            outputs = runtime.store.resumption.outputs(task)[:left]
            left -= len(outputs)
            lost[task] = sum(
                found.kind != "unread"
                for found in comparisons.differences(runtime, outputs, owner, end - monotonic())
            )
        seen |= lost.keys()
        resumed = _without(resumed, lost)


def _without(resumed: ResumedWorkflow, lost: dict[int, int]) -> ResumedWorkflow:
    """Return the same with so many outputs lost, by task."""
    candidates = {
        name: tuple(replace(task, lost_outputs=lost.get(task.task, task.lost_outputs)) for task in tasks)
        for name, tasks in resumed.candidates.items()
    }
    return replace(resumed, candidates=candidates)
