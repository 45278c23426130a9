"""The expected run of a job at a queue (B21, E2), and when a task is likely to end. Times are in s.

The estimate: the slots of its share run all jobs ahead of the last one, which then takes as long as the
longest so far. Batch systems, transfers and failures make ends differ from that: the interval has the width
that held 3 of 4 ends in simulations (``benchmarks/likely_ends.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pilotage.model.records.federation import UNKNOWN_CORE_POWER, Queue
from pilotage.model.records.work import Job, Task

LEAST_FINISHED = 5
"""Finished jobs of a task below which nothing is predicted."""

EARLIEST, LATEST = 0.55, 3.2
"""Factors on the estimate: 3 of 4 simulated ends were between them."""

LEAST_PART = 0.25
"""Least part of a mean run that is left of a running job: it may already run longer than all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a task is, and what its share has in use."""

    runs: Sequence[float]
    """How long its finished jobs ran, or some of them."""
    running: Sequence[float] = ()
    """How long each of its jobs at a pilot has run so far."""
    waiting: int = 0
    """Its jobs that have not started, made or not."""
    ahead: int = 0
    """Jobs of its share that start before these."""
    slots: int = 0
    """Jobs of its share at pilots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyEnd:
    """When a task is likely to end: an interval in s from now, and the finished jobs behind it."""

    earliest: float
    latest: float
    jobs: int


def likely_end(progress: Progress) -> LikelyEnd | None:
    """Return when a task is likely to end; None if too little is known.

    That is so if few jobs have finished, none is left, or nothing of its share runs while its jobs wait.
    """
    remaining = progress.waiting + len(progress.running)
    if len(progress.runs) < LEAST_FINISHED or not remaining or (progress.waiting and not progress.slots):
        return None
    # Finished jobs alone would be the short ones.
    durations = [*progress.runs, *progress.running]
    mean, longest = fmean(durations), max(durations)
    rest = max(LEAST_PART * mean, longest - min(progress.running)) if progress.running else 0.0
    wait = 0.0
    if progress.waiting:
        wait = (progress.ahead + progress.waiting) * mean / progress.slots + longest
    estimate = max(rest, wait)
    return LikelyEnd(earliest=EARLIEST * estimate, latest=LATEST * estimate, jobs=len(progress.runs))


def expected_run(task: Task, job: Job, queue: Queue, mean_run: float | None) -> float:
    """Return the expected seconds of a job at a queue: estimated or measured, else as payloads took recently.

    ``mean_run`` is their mean in s, if there is one. 0 if nothing is known.
    """
    spec = task.changed(job.changes, job.kind).expected(job.kind).for_job(job.kind)
    cores = spec.cores or queue.cores or 1
    power = cores * (queue.core_power or UNKNOWN_CORE_POWER) * spec.cpu_efficiency
    work = spec.cpu_time * job.events / power
    return (work + spec.base_time if work else spec.walltime or spec.base_time) or mean_run or 0.0
