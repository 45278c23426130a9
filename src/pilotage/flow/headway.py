"""Headway: the jobs of each task that found room lately. A pass reads few more of those that wait for it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set

from pilotage.model.work import Job

WHOLE_AFTER = 16
"""Passes after which one reads all it may of each task: its first jobs may wait where others need not."""

STUCK_AFTER = 8
"""Passes after which one looks again at tasks that found no room, while others find some."""


class Headway:
    """Memory of how tasks fared in the passes of a step. Only a help: nothing is lost with it.

    Of a task of which some jobs were left, the next pass reads twice as many as went, at least one; so what
    waits costs little, and what finds room again doubles with each pass. Tasks of which none went rest while
    others go, but for one pass in :data:`STUCK_AFTER`: there all are looked at together, in their order.
    Where a pass moved less than half of what the one before did, the next one looks at everything anew: the
    tasks that went have ended, and others may have their room.
    """

    def __init__(self) -> None:
        self._most: dict[int, int] = {}
        self._stuck: frozenset[int] = frozenset()
        self._gone: dict[str, int] = {}
        self._passes = 0

    def most(self) -> Mapping[int, int]:
        """The most jobs to read of each task; a task that is not named may have its whole part."""
        self._passes += 1
        if self._passes % WHOLE_AFTER == 0:
            self._most = {}
        if self._passes % STUCK_AFTER == 0:
            self._stuck = frozenset()
        return {**self._most, **dict.fromkeys(self._stuck, 0)}

    def note(self, plugin: str, read: Iterable[Job], moved: Iterable[int]) -> bool:
        """Note the jobs that a pass read for a plugin, and the ids of those that went on.

        Returns False where none went while others rested: then all are to be looked at, at once.
        """
        gone = set(moved)
        rested, before = bool(self._stuck), self._gone.get(plugin, 0)
        self._gone[plugin] = len(gone)
        if 2 * len(gone) < before:
            self._most, self._stuck = {}, frozenset()
        else:
            self._remember(read, gone)
        return bool(gone) or not rested

    def _remember(self, read: Iterable[Job], gone: Set[int]) -> None:
        were, went = Counter[int](), Counter[int]()
        for job in read:
            were[job.task] += 1
            went[job.task] += job.id in gone
        for task, jobs in were.items():
            # Powers of two: tasks with the same number are read together.
            if went[task] < jobs or task in self._most:
                self._most[task] = 1 << max(0, 2 * went[task] - 1).bit_length()
        stuck = {task for task in were if not went[task]}
        self._stuck = (self._stuck | stuck) - (were.keys() - stuck) if gone else frozenset()
