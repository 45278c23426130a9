"""Tasks of a simulation with the true work of their jobs, not only an estimate."""

from collections import defaultdict
from dataclasses import dataclass, field

from pilotage.model.records.work import JobKind, TaskSpec
from pilotage.model.values.identity import Identity

MERGE = 600.0
"""HS23 s of a merge job: a minute on a core of 10 HS23."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTask:
    """A task to submit ``at`` s after the beginning. ``work`` has the HS23 s of each of its jobs.

    Each job leaves outputs of ``output_size`` bytes.
    """

    spec: TaskSpec
    owner: Identity
    work: tuple[float, ...]
    at: float = 0.0
    output_size: int = 1_000_000


@dataclass(slots=True)
class Payloads:
    """The submitted tasks, by number.

    The n-th started job of a task has the task's n-th work. So all policies do the same work, in any order of
    jobs. Merge jobs always have little work.
    """

    tasks: dict[int, SimulatedTask] = field(default_factory=dict)
    works: dict[int, float] = field(default_factory=dict)
    """The HS23 s of each started job."""
    _started: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def work(self, task: int, job: int, kind: JobKind) -> float:
        """Return the work of a job that starts now or started before."""
        if job not in self.works and kind == "merge":
            self.works[job] = MERGE
        elif job not in self.works:
            works = self.tasks[task].work
            self.works[job] = works[self._started[task] % len(works)]
            self._started[task] += 1
        return self.works[job]
