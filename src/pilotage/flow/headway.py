"""Headway: which waiting tasks found room lately. A pass reads these, in their order, and little more."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from pilotage.model.work import Job
from pilotage.ports import Clock
from pilotage.store import Waiting

LEAST = 100
"""Jobs of a share that a pass reads at least, as far as there are so many."""

WHOLE_AFTER = 8
"""Passes after which one looks at all tasks again, at the earliest."""

REST = 10.0
"""Times what it took to list all tasks, or to look at them, until that is done again, at the earliest."""


class Headway:
    """Memory of how tasks fared in the passes of a step. Only a help: nothing is lost with it.

    Most passes read of each share, by priority, then age, a quarter more jobs than found room in the passes
    before, twice as many where all did; so what waits behind them costs nothing. A task
    that was overtaken, because others of its share found room behind it, is read in parts: twice as many as
    went; where none went it rests. Now and then a pass looks at some jobs of every task: a thousand tasks
    cost more than the thousand jobs that go, so the rest between two such passes grows with their cost.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listed: dict[int, Waiting] = {}
        self._list_again = self._look_again = 0.0
        self._most: dict[int, int] = {}
        self._wanted: dict[str, int] = {}
        self._read: Counter[str] = Counter()
        self._gone: Counter[str] = Counter()
        self._begun = 0.0
        self._passes = WHOLE_AFTER
        self._looks_at_all = self._leaves_out = False

    def parts(self, waiting: Callable[[], Sequence[Waiting]], limit: int, begun: float) -> Mapping[int, int]:
        """Return the most jobs to read of each task, about ``limit`` in all, in the pass that began then.

        ``waiting`` lists all tasks that wait, by priority, then age.
        """
        if begun != self._begun:  # a pass reads once for each plugin
            self._begin(begun)
        if self._looks_at_all:
            self._list(waiting)
            self._most.clear()
            self._leaves_out = False
            return dict.fromkeys(self._listed, max(1, limit // max(1, len(self._listed))))
        if self._clock() < self._list_again and (found := self._first(limit)) and self._leaves_out:
            return found
        self._list(waiting)
        return self._first(limit)

    def _begin(self, time: float) -> None:
        self._begun = time
        self._passes += 1
        for share, read in self._read.items():
            gone = self._gone[share]
            following = 2 * gone if gone == read else gone * 5 // 4
            # Room comes in lumps, between which passes find little: they are not forgotten at once.
            self._wanted[share] = max(LEAST, following, self._wanted.get(share, 0) * 7 // 8)
        self._read.clear()
        self._gone.clear()
        self._looks_at_all = self._passes >= WHOLE_AFTER and self._clock() >= self._look_again
        if self._looks_at_all:
            self._passes = 0

    def _list(self, waiting: Callable[[], Sequence[Waiting]]) -> None:
        begun = self._clock()
        self._listed = {one.task: one for one in waiting()}
        self._list_again = self._clock() + REST * (self._clock() - begun)

    def _first(self, limit: int) -> Mapping[int, int]:
        """The first jobs of each share, as many as may find room."""
        waiting = self._listed.values()
        wanted = {one.share: self._wanted.get(one.share, LEAST) for one in waiting}
        scale = min(1.0, limit / max(1, sum(wanted.values())))
        left = {share: max(1, int(jobs * scale)) for share, jobs in wanted.items()}
        found: dict[int, int] = {}
        self._leaves_out = False
        for one in waiting:
            jobs = min(one.jobs, left[one.share], self._most.get(one.task, limit))
            if jobs > 0:
                left[one.share] -= jobs
                # Tasks with the same number are read together: all of a task is always said by the same.
                found[one.task] = limit if jobs == one.jobs else jobs
            self._leaves_out |= jobs < one.jobs
        return found

    def note(self, read: Sequence[Job], moved: Iterable[int]) -> bool:
        """Note the jobs of a plugin that a pass read, and the ids of those that went on.

        Returns False where none went while tasks were left out: then all are to be looked at, at once.
        """
        gone, now = set(moved), self._clock()
        self._remember(read, gone)
        if self._looks_at_all:
            self._look_again = now + REST * (now - self._begun)
        if gone or not self._leaves_out or now < self._look_again:
            return True
        self._passes = WHOLE_AFTER
        return False

    def _remember(self, read: Sequence[Job], gone: set[int]) -> None:
        were, went = Counter[int](), Counter[int]()
        tasks: defaultdict[str, dict[int, None]] = defaultdict(dict)
        for job in read:
            tasks[job.share][job.task] = None
            were[job.task] += 1
            self._read[job.share] += 1
            if job.id in gone:
                went[job.task] += 1
                self._gone[job.share] += 1
        for task, jobs in went.items():
            if one := self._listed.get(task):
                self._listed[task] = one._replace(jobs=max(0, one.jobs - jobs))
        for ordered in map(list, tasks.values()):
            last = max((place for place, task in enumerate(ordered) if went[task]), default=0)
            for place, task in enumerate(ordered):
                if place < last and went[task] < were[task]:
                    # Powers of two, too, so that more are read together.
                    self._most[task] = 1 << (2 * went[task] - 1).bit_length() if went[task] else 0
                else:
                    self._most.pop(task, None)
