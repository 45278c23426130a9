"""The expected run of a job at a queue: one answer for the brokerage and for pilots (B21, E2)."""

from pilotage.model.records.federation import UNKNOWN_CORE_POWER, Queue
from pilotage.model.records.work import Job, Task


def expected_run(task: Task, job: Job, queue: Queue, mean_run: float | None) -> float:
    """Return the expected seconds of a job at a queue: estimated or measured, else as payloads took recently.

    ``mean_run`` is their mean in s, if there is one. 0 if nothing is known.
    """
    spec = task.changed(job.changes, job.kind).expected(job.kind).for_job(job.kind)
    cores = spec.cores or queue.cores or 1
    power = cores * (queue.core_power or UNKNOWN_CORE_POWER) * spec.cpu_efficiency
    work = spec.cpu_time * job.events / power
    return (work + spec.base_time if work else spec.walltime or spec.base_time) or mean_run or 0.0
