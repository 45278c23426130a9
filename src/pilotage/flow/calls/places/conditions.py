"""The current condition of queues: the store's facts, and whether pilots can be submitted from here."""

from collections.abc import Iterable
from dataclasses import replace

from pilotage.flow.calls.work import secrets
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import AT_A_PILOT, JobState
from pilotage.model.records.unable_ways import UnableWays
from pilotage.model.records.work import Requirements
from pilotage.model.rules.plugins import plugin_of
from pilotage.model.rules.queue_condition import QueueCondition
from pilotage.store import TaskDetails, TaskView

MOVING = (JobState.ASSIGNED, JobState.HOLDING, JobState.TRANSFERRING)
"""States of jobs with files that move, or wait to move."""


def of_queues(runtime: Runtime, names: Iterable[str] | None = None) -> tuple[QueueCondition, ...]:
    """Return queues by name, or all. Raises ``NoFederation``."""
    conditions = runtime.store.queries.conditions(runtime.clock(), names)
    return tuple(
        replace(condition, problem=runtime.elements.problem(condition.queue)) for condition in conditions
    )


def where_it_waits(runtime: Runtime, task: TaskView) -> tuple[QueueCondition, ...]:
    """Return queues where jobs of a task wait for a pilot, if none of its jobs has one."""
    if not task.jobs.get(JobState.ACTIVATED) or any(task.jobs.get(state) for state in AT_A_PILOT):
        return ()
    return of_queues(runtime, runtime.store.queries.where_jobs_wait(task.id))


def unable_to_move(runtime: Runtime, source: str, destination: str) -> str:
    """Return what this server lacks to move files between two storages; empty if nothing."""
    federation = runtime.store.federation()
    unable = UnableWays.of(federation.storages, runtime.deliveries.unable(federation))
    return unable.reason(source, destination)


def waits_for_others(runtime: Runtime, task: TaskDetails) -> list[str]:
    """Return which transfers of a task's files wait for another server, because this one cannot move them."""
    if not any(task.jobs.get(state) for state in MOVING):
        return []
    waits = []
    for source, destination, number in runtime.store.transfer_queries.waiting_of(task.id):
        if obstacle := unable_to_move(runtime, source, destination):
            transfers = f"{number} transfers" if number > 1 else "1 transfer"
            subject = f"{transfers} from {source} to {destination}"
            waits.append(f"{subject} wait for a server that can move them; this one cannot: {obstacle}")
    return waits


def waits_for_key(runtime: Runtime, task: TaskDetails) -> list[str]:
    """Return why jobs of a task wait for another server to decrypt their secrets; empty if they do not."""
    has_any = task.spec.secrets and task.jobs.get(JobState.ACTIVATED)
    return secrets.waits_for_key(runtime, task.vo, task.owner) if has_any else []


def job_waits_for_key(runtime: Runtime, text: str) -> list[str]:
    """Return the same for a job with these requirements, as ``Requirements.text``; empty: unknown ones."""
    requirements = Requirements.from_text(text) if text else None
    return (
        secrets.waits_for_key(runtime, requirements.vo, requirements.owner)
        if requirements and requirements.secrets
        else []
    )


def waits_for_brokerage(runtime: Runtime, task: TaskDetails) -> list[str]:
    """Return why jobs of a task wait for a server that has its brokerage; empty if they do not."""
    if not (task.jobs.get(JobState.DEFINED) or task.jobs.get(JobState.PENDING)):
        return []
    federation = runtime.store.federation()
    name = plugin_of(task.spec, task.vo, federation)
    obstacle = runtime.brokerages.lacks(federation, name, runtime.clock(), runtime.time_limit)
    return (
        [f"its jobs wait for a server that has its brokerage; this one has not: {obstacle}"]
        if obstacle
        else []
    )
