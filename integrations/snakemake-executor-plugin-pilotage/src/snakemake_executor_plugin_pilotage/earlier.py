"""Jobs of an earlier run in the same directory, which this run waits for instead of repeating them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilotage.client import Gone, NotFound
from pilotage.client.job_states import ENDED

from .batches import LABEL, Row

if TYPE_CHECKING:
    from pilotage.client import Client

_REFERENCE = re.compile(r"pilotage:(\d+)/(\d+)")

MOST_TASKS = 1000
"""Most tasks of the directory that are looked at, the newest first."""


def reference(task: int, index: int) -> str:
    """Return what Snakemake remembers of a job: its task, and its place there."""
    return f"pilotage:{task}/{index}"


@dataclass(frozen=True)
class EarlierJob:
    """A job that an earlier run submitted."""

    task: int
    index: int
    number: int
    state: str
    definition: str

    @property
    def is_live(self) -> bool:
        """Whether it waits or runs."""
        return self.state not in ENDED


class EarlierJobs:
    """The jobs of earlier runs in one working directory."""

    def __init__(self, client: "Client", label: str) -> None:
        self._client = client
        self._live: dict[str, EarlierJob] = {}
        self._tasks: dict[int, dict[int, tuple[str, EarlierJob]]] = {}
        for task in client.tasks(label=[f"{LABEL}={label}"], mine=True, limit=MOST_TASKS):
            if not task.has_ended:
                jobs = self._read(task.id).values()
                self._live |= {target: job for target, job in jobs if job.is_live}

    def live(self, row: Row) -> EarlierJob | None:
        """Return the job that makes the same now."""
        return self._live.pop(row.target, None)

    def done(self, row: Row, references: Iterable[str]) -> EarlierJob | None:
        """Return the job that has done exactly this, if Snakemake remembers it as the last one to try."""
        for text in references:
            if match := _REFERENCE.fullmatch(text):
                task, index = map(int, match.groups())
                target, job = self._read(task).get(index, ("", None))
                if (
                    job
                    and job.state == "finished"
                    and (target, job.definition) == (row.target, row.definition)
                ):
                    return job
        return None

    def _read(self, task: int) -> dict[int, tuple[str, EarlierJob]]:
        """Return what the jobs of a task make, by their places."""
        if task not in self._tasks:
            jobs = self._tasks[task] = {}
            try:
                for job in self._client.each(self._client.jobs, task, parameters=True):
                    row = job.get("parameters") or {}
                    if job.index is not None and "target" in row:
                        found = EarlierJob(task, job.index, job.id, job.state, row.get("definition", ""))
                        jobs[job.index] = (row["target"], found)
            except (Gone, NotFound):
                pass
        return self._tasks[task]
