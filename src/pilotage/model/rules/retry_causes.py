"""What the next attempt of a job asks for, by the cause of the last one's failure."""

from collections.abc import Iterable, Mapping
from math import ceil, inf
from typing import Any

from pilotage.model.documents.moves import AS_BEFORE, NextAttempt
from pilotage.model.records.failure_kinds import FAILURE_RULES, Exceeded, FailureKind
from pilotage.model.records.failures import Tries
from pilotage.model.records.federation import UNKNOWN_CORE_POWER, Federation, Queue
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.work import Job, Task
from pilotage.model.rules.changed_jobs import changed_columns, in_words

EXCEEDED: Mapping[Exceeded, str] = {"memory": "memory exceeded: ", "walltime": "walltime exceeded: "}
"""How the error of a pilot begins that its batch system stopped for one of these limits."""

MOST_MEGABYTES, MOST_SECONDS = 1e9, 1e10
"""The bounds of a task's ``ram`` and ``walltime``."""

_UNLIMITED = 0.0
_CLOSED = ("offline", "brokeroff", "draining")


def exceeded_by(error: str) -> FailureKind | None:
    """Return how payloads failed if their pilot's batch system stopped it with this error, else None."""
    if error.startswith(EXCEEDED["memory"]):
        return "slot-memory"
    return "slot-walltime" if error.startswith(EXCEEDED["walltime"]) else None


def next_attempt(
    task: Task,
    job: Job,
    kind: FailureKind | None,
    federation: Federation,
    tries: Tries,
    lasted: float = 0.0,
) -> NextAttempt:
    """Return what the next attempt changes: more memory after too little, or more time.

    The limit in force grows by the factor of the task's ``retries``, up to the most that a queue of the job
    allows. At that most, a payload that exceeded its own limit is not tried again. If a job only estimates
    its work, and ran ``lasted`` s until the end of its pilot, its estimate grows to match. Other failures
    change nothing.
    """
    rules = FAILURE_RULES[kind] if kind else None
    if rules is None or not rules.exceeded:
        return AS_BEFORE
    if not tries.remain(job.attempt):
        return NextAttempt(no_more=f"it was attempt {tries.limit} of {tries.limit}")
    changed = task.changed(job.changes, job.kind)
    factor = getattr(task.spec.retries, rules.exceeded)
    expected = changed.expected(job.kind)
    if kind == "slot-walltime" and expected.cpu_time and not expected.walltime:
        return _changed(task, job, _outlasting(changed, job, lasted * factor, federation))
    limit, ceiling = _limits(changed, job, rules.exceeded, federation)
    request = min(ceil(limit * factor), ceiling)
    if request > limit > 0:
        return _changed(task, job, _asking(expected, rules.exceeded, request))
    if factor > 1 and limit > 0 and not rules.shared:
        unit = "MB" if rules.exceeded == "memory" else "s"
        return NextAttempt(no_more=f"no queue of it allows more than {ceiling:.0f} {unit}")
    return AS_BEFORE


def _changed(task: Task, job: Job, values: Mapping[str, Any]) -> NextAttempt:
    if not values:
        return AS_BEFORE
    columns = changed_columns(task, job, values)
    return NextAttempt(columns=columns, words=in_words(task, job.changes, job.kind, values))


def _outlasting(changed: Task, job: Job, seconds: float, federation: Federation) -> dict[str, Any]:
    """Return the CPU time of a job that takes ``seconds`` where it ran; nothing if its own is larger.

    Otherwise the next pilot with as little time left would take it. The CPU time fits a queue's limit.
    """
    spec = changed.expected(job.kind)
    base, cores = spec.base_time, max(1, spec.cores)
    work = spec.cpu_time * spec.events_per_job / spec.cpu_efficiency

    def in_time(queue: Queue, limit: float) -> float:
        return (limit - base) * (queue.core_power or UNKNOWN_CORE_POWER) * cores

    here = next((queue for queue in federation.queues if queue.name == job.queue), None)
    # A job must take less than the queue's limit (B21).
    limits = [
        in_time(queue, queue.max_walltime - 1) if queue.max_walltime else inf
        for queue in _of_job(changed, federation)
    ]
    outlasted = min(in_time(here, seconds) if here else 0.0, max(limits, default=0.0))
    return {"cpu_time": float(ceil(spec.cpu_time * outlasted / work))} if outlasted > work else {}


def _limits(changed: Task, job: Job, exceeded: Exceeded, federation: Federation) -> tuple[float, float]:
    """Return the limit in force, and the most that a queue of the job allows, in MB or s."""
    spec = changed.spec.for_job(job.kind)
    queues = list(_of_job(changed, federation))
    here = next((queue for queue in federation.queues if queue.name == job.queue), None)
    if exceeded == "memory":
        limit = changed.limit(job.kind, spec.memory, here.max_memory if here else 0)
        return limit, min(_largest_limit(queue.max_memory for queue in queues), MOST_MEGABYTES)
    limit = changed.limit(job.kind, spec.walltime, here.max_walltime if here else 0)
    # A job must take less than the queue's limit (B21).
    ceiling = _largest_limit(queue.max_walltime - 1 if queue.max_walltime else 0 for queue in queues)
    return limit, min(ceiling, MOST_SECONDS)


def _asking(expected: TaskSpec, exceeded: Exceeded, request: float) -> dict[str, Any]:
    """Return the fields of a task that asks for so much memory or walltime."""
    if exceeded == "memory":
        return {"ram": expected.ram + (request - expected.memory) / expected.ram_units}
    return {"walltime": request} | ({"cpu_time": 0} if expected.cpu_time else {})


def _of_job(task: Task, federation: Federation) -> Iterable[Queue]:
    """Yield the queues that a job may go to, full ones too."""
    named = set(task.spec.queues)
    for queue in federation.queues:
        is_named = not named or {queue.name, queue.parent} & named
        is_open = not queue.vos or task.owner.vo in queue.vos
        if is_named and is_open and queue.status not in _CLOSED:
            yield queue


def _largest_limit(limits: Iterable[float]) -> float:
    """Return the largest limit; 0 means none."""
    values = list(limits)
    return inf if _UNLIMITED in values else max(values, default=inf)
