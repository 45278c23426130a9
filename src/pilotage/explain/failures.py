"""Failed jobs in words: grouped causes, those of most jobs first."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from pilotage.model.records.failures import ending_of

from .words import few, plural, shortened

MOST_CAUSES = 5
"""Most causes shown, starting with those of most jobs."""

MOST_LINES = 8
"""Most lines shown of an error's end."""


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


def of_failed(jobs: Iterable[_FailedJob], *, ended: bool) -> list[str]:
    """Return the causes, each with its number of jobs, exit code, places, job numbers, and the end of one
    job's stderr.

    ``ended`` is true if the task has ended. Otherwise jobs that will be retried are included.
    """
    causes: dict[tuple[int | None, str], list[_FailedJob]] = {}
    for job in jobs:
        causes.setdefault((job.exit_code, ending_of(job.error)), []).append(job)
    most = sorted(causes.items(), key=lambda cause: (-len(cause[1]), cause[1][0].id))
    told: list[str] = []
    for (code, _), alike in most[:MOST_CAUSES]:
        told += _cause(code, alike, ended=ended)
    if len(most) > MOST_CAUSES:
        told.append(f"  and {plural(len(most) - MOST_CAUSES, 'other cause')}")
    return told


def _cause(code: int | None, alike: Sequence[_FailedJob], *, ended: bool) -> list[str]:
    what = "failed" if ended else "failed so far"
    queues = sorted({job.queue for job in alike if job.queue})
    where = f" at {few(queues)}" if queues else ""
    how = "" if code is None else f", exit code {code}"
    one = alike[0]
    lines = [line.rstrip() for line in one.error.splitlines() if line.strip()]
    shown = lines[-MOST_LINES:]
    ids = shortened(job.id for job in alike)
    head = f"  {plural(len(alike), 'job')} {what}{where}{how} ({'jobs' if len(alike) > 1 else 'job'} {ids})"
    if len(alike) > 1:
        head += f"; job {one.id}:"
    else:
        head += ":"
    dots = ["    ..."] if len(shown) < len(lines) else []
    return [head, *dots, *(f"    {line}" for line in shown)]
