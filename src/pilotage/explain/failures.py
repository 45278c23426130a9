"""Failed jobs in words: grouped by cause, the most frequent cause first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from pilotage.explain.words import few, shortened
from pilotage.model.records.failures import ending_of
from pilotage.model.records.states import JobState
from pilotage.model.values.phrases import plural

MOST_CAUSES = 5
"""Most causes to show."""

MOST_LINES = 8
"""Most lines to show from the end of an error."""

_FATES = {
    JobState.FAILED: "failed",
    JobState.CLOSED: "closed after a failed attempt",
    JobState.ACTIVATED: "failed so far",
}
"""Words for the state of jobs after a failed attempt; jobs in any other state will be tried again."""


class _FailedJob(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def error(self) -> str: ...
    @property
    def state(self) -> JobState: ...


def of_failed(jobs: Iterable[_FailedJob]) -> list[str]:
    """Return the causes, each with its number of jobs, exit code, queues, job numbers, and the end of one
    job's stderr.

    Jobs count by their state, as in the task's own counts: failed, closed after a failed attempt, or retried.
    """
    causes: dict[tuple[int | None, str], list[_FailedJob]] = {}
    for job in jobs:
        causes.setdefault((job.exit_code, ending_of(job.error)), []).append(job)
    causes_in_order = sorted(causes.items(), key=lambda cause: (-len(cause[1]), cause[1][0].id))
    lines: list[str] = []
    for (code, _), members in causes_in_order[:MOST_CAUSES]:
        lines += _cause(code, members)
    if len(causes_in_order) > MOST_CAUSES:
        lines.append(f"  and {plural(len(causes_in_order) - MOST_CAUSES, 'other cause')}")
    return lines


def _cause(code: int | None, jobs: Sequence[_FailedJob]) -> list[str]:
    queues = sorted({job.queue for job in jobs if job.queue})
    place = f" at {few(queues)}" if queues else ""
    exit_code = "" if code is None else f", exit code {code}"
    first = jobs[0]
    lines = [line.rstrip() for line in first.error.splitlines() if line.strip()]
    tail = lines[-MOST_LINES:]
    ids = shortened(job.id for job in jobs)
    head = f"  {_count_fates(jobs)}{place}{exit_code} ({'jobs' if len(jobs) > 1 else 'job'} {ids})"
    if len(jobs) > 1:
        head += f"; job {first.id}:"
    else:
        head += ":"
    dots = ["    ..."] if len(tail) < len(lines) else []
    return [head, *dots, *(f"    {line}" for line in tail)]


def _count_fates(jobs: Sequence[_FailedJob]) -> str:
    """Count jobs of one cause by their fate: ``4 jobs failed, 8 closed after a failed attempt``."""
    counted = Counter(_FATES.get(job.state, "failed so far") for job in jobs)
    (first_fate, first_count), *rest = sorted(
        counted.items(), key=lambda pair: [*_FATES.values()].index(pair[0])
    )
    return ", ".join(
        [f"{plural(first_count, 'job')} {first_fate}", *(f"{count} {fate}" for fate, count in rest)]
    )
