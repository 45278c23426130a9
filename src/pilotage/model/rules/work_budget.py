"""Counted work of policies: a task that needs too much of it is set aside, and no other task waits for it.

It counts the rounds of loops that a task's own numbers make long. It reads no clock, so a saved world gives
the same decision anywhere.
"""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedWork:
    """A kind of work, the most of it that one task has in one decision, and what its owner can change."""

    unit: str
    limit: int
    remedy: str


EVALUATIONS = CountedWork(
    unit="evaluations of its ClassAd expressions",
    limit=1_000_000,
    remedy="shorten them, or let them read fewer attributes that differ by job",
)
"""Those of long expressions count once for each ``LONG_EXPRESSION`` characters."""

LONG_EXPRESSION = 500

PAIRS = CountedWork(
    unit="pairs of its jobs and queues",
    limit=100_000_000,
    remedy="give its jobs inputs at the same storages, bind it to fewer queues, or submit it in parts",
)
FILES = CountedWork(
    unit="files of its jobs",
    limit=5_000_000,
    remedy="submit it in parts of fewer files",
)
PASSED_OVER = CountedWork(
    unit="jobs of it that pilots passed over",
    limit=5_000_000,
    remedy="submit it in parts of fewer jobs",
)


class OverBudget(Exception):
    """A task needs more counted work than one decision has for it."""

    def __init__(self, task: int, work: CountedWork, spent: int) -> None:
        self.task = task
        self.problem = f"needs {spent} {work.unit} in one decision, above {work.limit}"
        self.remedy = work.remedy
        super().__init__(f"task {task} {self.problem}; {self.remedy}")


class WorkBudget:
    """Counts the work of one decision for each task."""

    def __init__(self) -> None:
        self._spent: Counter[tuple[int, CountedWork]] = Counter()

    def spend(self, task: int, work: CountedWork, amount: int = 1) -> None:
        """Count work for a task. Raises ``OverBudget`` where it is more than the task has."""
        self._spent[task, work] += amount
        if self._spent[task, work] > work.limit:
            raise OverBudget(task, work, self._spent[task, work])
