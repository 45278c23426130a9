"""What the next attempt of a job asks for, by the cause of the last one's failure."""

from collections.abc import Iterable
from math import ceil, inf
from typing import Any

from pilotage.model.documents.moves import AS_BEFORE, NextAttempt
from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.work import Job, Task

from .changed_jobs import changed_columns, in_words

MEMORY, WALLTIME = "memory exceeded: ", "walltime exceeded: "
"""How the error of an attempt begins that its agent ended for its memory or walltime."""

EXCEEDED = {"memory": MEMORY, "walltime": WALLTIME}
"""How the error of a pilot begins that its batch system stopped for one of these limits."""

MOST_MEGABYTES, MOST_SECONDS = 1e9, 1e10
"""The bounds of a task's ``ram`` and ``walltime``."""

_UNLIMITED = 0.0
_CLOSED = ("offline", "brokeroff", "draining")


def next_attempt(task: Task, job: Job, error: str, federation: Federation) -> NextAttempt:
    """Return what the next attempt changes: more memory after too little, or more time.

    The limit in force grows by the factor of the task's ``retries``, up to the most that a queue of the job
    allows. Other failures change nothing.
    """
    retries = task.spec.retries
    seen = task.changed(job.changes, job.kind)
    asked, expected = seen.spec.for_job(job.kind), seen.expected(job.kind)
    queues = list(_of_job(seen, federation))
    here = next((queue for queue in federation.queues if queue.name == job.queue), None)
    values: dict[str, Any] = {}
    if error.startswith(MEMORY):
        limit = seen.limit(job.kind, asked.memory, here.max_memory if here else 0)
        most = _most(queue.max_memory for queue in queues)
        memory = min(ceil(limit * retries.memory), most, MOST_MEGABYTES)
        if memory > limit > 0:
            values = {"ram": expected.ram + (memory - expected.memory) / expected.ram_units}
    elif error.startswith(WALLTIME):
        limit = seen.limit(job.kind, asked.walltime, here.max_walltime if here else 0)
        # A job must take less than the queue's limit (B21).
        most = _most(queue.max_walltime - 1 if queue.max_walltime else 0 for queue in queues)
        walltime = min(ceil(limit * retries.walltime), most, MOST_SECONDS)
        if walltime > limit > 0:
            values = {"walltime": walltime} | ({"cpu_time": 0} if expected.cpu_time else {})
    columns = changed_columns(task, job, values) if values else {}
    if not columns:
        return AS_BEFORE
    return NextAttempt(columns=columns, words=in_words(task, job.changes, job.kind, values))


def _of_job(task: Task, federation: Federation) -> Iterable[Queue]:
    """Yield the queues that a job may go to, whatever they have room for now."""
    named = set(task.spec.queues)
    for queue in federation.queues:
        is_named = not named or {queue.name, queue.parent} & named
        is_open = not queue.vos or task.owner.vo in queue.vos
        if is_named and is_open and queue.status not in _CLOSED:
            yield queue


def _most(limits: Iterable[float]) -> float:
    """Return the largest limit; 0 means none."""
    found = list(limits)
    return inf if _UNLIMITED in found else max(found, default=inf)
