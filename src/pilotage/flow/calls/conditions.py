"""The condition of queues as of now: what the store knows, and whether pilots can be submitted from here."""

from collections.abc import Iterable
from dataclasses import replace

from pilotage.flow.runtime import Runtime
from pilotage.model.queue_condition import QueueCondition
from pilotage.model.states import AT_A_PILOT, JobState
from pilotage.store import TaskDetails


def of_queues(runtime: Runtime, names: Iterable[str] | None = None) -> tuple[QueueCondition, ...]:
    """Queues by name, or all. Raises :class:`NoFederation`."""
    found = runtime.store.queries.conditions(runtime.clock(), names)
    return tuple(replace(seen, problem=runtime.elements.problem(seen.queue)) for seen in found)


def where_it_waits(runtime: Runtime, task: TaskDetails) -> tuple[QueueCondition, ...]:
    """Queues at which jobs of a task wait for a pilot, where none of its jobs has one."""
    if not task.jobs.get(JobState.ACTIVATED) or any(task.jobs.get(state) for state in AT_A_PILOT):
        return ()
    return of_queues(runtime, runtime.store.queries.where_jobs_wait(task.id))
