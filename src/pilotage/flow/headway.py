"""Headway: the jobs of each task that found room lately. A pass reads few more of those that wait for it."""

from collections import Counter
from collections.abc import Iterable, Mapping

from pilotage.model.work import Job

WHOLE_AFTER = 16
"""Passes after which one reads all it may of each task: its first jobs may wait where others need not."""


class Headway:
    """Memory of how tasks fared in the passes of a step. Only a help: nothing is lost with it.

    Of a task of which some jobs were left, the next pass reads twice as many as went, at least one; so what
    waits costs little, and what finds room again doubles with each pass.
    """

    def __init__(self) -> None:
        self._most: dict[int, int] = {}
        self._passes = 0

    def most(self) -> Mapping[int, int]:
        """The most jobs to read of each task; a task that is not named may have its whole part."""
        self._passes += 1
        if self._passes % WHOLE_AFTER == 0:
            self._most = {}
        return self._most

    def note(self, read: Iterable[Job], moved: Iterable[int]) -> None:
        """Note the jobs that a pass read, and the ids of those that went on."""
        gone = set(moved)
        were, went = Counter[int](), Counter[int]()
        for job in read:
            were[job.task] += 1
            went[job.task] += job.id in gone
        for task, jobs in were.items():
            # Powers of two: tasks with the same number are read together.
            if went[task] < jobs or task in self._most:
                self._most[task] = 1 << max(0, 2 * went[task] - 1).bit_length()
