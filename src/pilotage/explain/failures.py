"""Failed jobs in words: grouped causes, those of most jobs first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from pilotage.explain.words import few, shortened
from pilotage.model.records.failures import ending_of
from pilotage.model.records.states import JobState
from pilotage.model.values.phrases import plural

MOST_CAUSES = 5
"""Most causes shown, starting with those of most jobs."""

MOST_LINES = 8
"""Most lines shown of an error's end."""

_FATES = {
    JobState.FAILED: "failed",
    JobState.CLOSED: "closed after a failed attempt",
    JobState.ACTIVATED: "failed so far",
}
"""What became of jobs whose last attempt failed, by state; all others are tried again, as activated ones."""


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
    """Return the causes, each with its number of jobs, exit code, places, job numbers, and the end of one
    job's stderr.

    Jobs count by their state, as in the task's own counts: failed, closed after a failed attempt, or retried.
    """
    causes: dict[tuple[int | None, str], list[_FailedJob]] = {}
    for job in jobs:
        causes.setdefault((job.exit_code, ending_of(job.error)), []).append(job)
    most = sorted(causes.items(), key=lambda cause: (-len(cause[1]), cause[1][0].id))
    told: list[str] = []
    for (code, _), alike in most[:MOST_CAUSES]:
        told += _cause(code, alike)
    if len(most) > MOST_CAUSES:
        told.append(f"  and {plural(len(most) - MOST_CAUSES, 'other cause')}")
    return told


def _cause(code: int | None, alike: Sequence[_FailedJob]) -> list[str]:
    queues = sorted({job.queue for job in alike if job.queue})
    where = f" at {few(queues)}" if queues else ""
    how = "" if code is None else f", exit code {code}"
    one = alike[0]
    lines = [line.rstrip() for line in one.error.splitlines() if line.strip()]
    shown = lines[-MOST_LINES:]
    ids = shortened(job.id for job in alike)
    head = f"  {_became(alike)}{where}{how} ({'jobs' if len(alike) > 1 else 'job'} {ids})"
    if len(alike) > 1:
        head += f"; job {one.id}:"
    else:
        head += ":"
    dots = ["    ..."] if len(shown) < len(lines) else []
    return [head, *dots, *(f"    {line}" for line in shown)]


def _became(jobs: Sequence[_FailedJob]) -> str:
    """Count jobs of one cause by what became of them: ``4 jobs failed, 8 closed after a failed attempt``."""
    counted = Counter(_FATES.get(job.state, "failed so far") for job in jobs)
    (first, many), *others = sorted(counted.items(), key=lambda one: [*_FATES.values()].index(one[0]))
    return ", ".join([f"{plural(many, 'job')} {first}", *(f"{count} {fate}" for fate, count in others)])
