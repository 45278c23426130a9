"""The order of waiting jobs in their task queue: priority, then age, then number (P13)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from pilotage.model.records.matching import ClaimRequest, PriorityLevel
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job
from pilotage.model.rules.work_budget import PASSED_OVER, WorkBudget

HIGH_PRIORITY = 800
"""From here on jobs are urgent to their owners: they stay at the nucleus (B8), and have shorter waits (T)."""

HeadKey = tuple[str, str, int]
"""A queue, requirements and a priority."""


class Heads:
    """Activated jobs of one priority in their order; taken ones have left."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._lines: defaultdict[HeadKey, dict[int, Job]] = defaultdict(dict)
        self._work = WorkBudget()
        for job in sorted(_activated(jobs), key=lambda job: (job.created, job.id)):
            self._lines[_key(job)][job.id] = job

    def take(self, request: ClaimRequest) -> list[Job]:
        """Take the jobs that a pilot asks for, as the commit does, or as many as there are.

        Raises ``.OverBudget`` where pilots pass over jobs of a task too often.
        """
        jobs: list[Job] = []
        for head in request.heads:
            line = self._lines[request.queue, head.requirements, head.priority]
            head_jobs = list(islice(self._let_through(line, request.passed_over), head.jobs))
            jobs += head_jobs
            self.leave(head_jobs)
        return jobs

    def leave(self, jobs: Iterable[Job]) -> None:
        """Remove jobs that another pilot has taken. Jobs that are not here change nothing."""
        for job in jobs:
            self._lines[_key(job)].pop(job.id, None)

    def _let_through(self, line: Mapping[int, Job], passed_over: Collection[int]) -> Iterator[Job]:
        for job in line.values():
            if job.task in passed_over:
                self._work.spend(job.task, PASSED_OVER)
            else:
                yield job


def levels_of(jobs: Iterable[Job], failed: Collection[int]) -> tuple[PriorityLevel, ...]:
    """Count activated jobs by queue, requirements and priority, and also by task for the ``failed`` tasks."""
    counts: Counter[HeadKey] = Counter()
    tasks: defaultdict[HeadKey, Counter[int]] = defaultdict(Counter)
    for job in _activated(jobs):
        key = _key(job)
        counts[key] += 1
        if job.task in failed:
            tasks[key][job.task] += 1
    return tuple(
        PriorityLevel(
            queue=key[0],
            requirements=key[1],
            priority=key[2],
            jobs=count,
            tasks=dict(sorted(tasks[key].items())),
        )
        for key, count in sorted(counts.items())
    )


def _activated(jobs: Iterable[Job]) -> Iterable[Job]:
    return (job for job in jobs if job.state is JobState.ACTIVATED)


def _key(job: Job) -> HeadKey:
    return job.queue, job.requirements, job.priority
