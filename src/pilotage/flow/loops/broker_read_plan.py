"""Which waiting tasks found room lately: a pass reads these, in their order, and little more."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from pilotage.model.records.work import Job
from pilotage.ports import Clock
from pilotage.store import Pass, Waiting

LEAST = 200
"""Jobs of a share that a pass reads at least, as far as there are so many. One that follows another at
once reads no more of a share of which jobs stayed, for mostly its room is used, and none of the tasks
whose jobs did: what went since has left them no more."""

WHOLE_AFTER = 8
"""Passes after which one looks at all tasks again, at the earliest."""

AMPLE = 2
"""Times as many of the first jobs that a look at all reads: room that they find is not for others to take."""

REST = 10.0
"""Times what it took to list all tasks, or to look at them, until that is done again, at the earliest."""


class BrokerReadPlan:
    """Memory of how tasks fared in the passes of a step. Only a help: nothing is lost with it.

    Most passes read of each share, by priority, then age, a quarter more jobs than found room in the passes
    before, twice as many where all did; so what waits behind them costs nothing. A task that was overtaken,
    because others of its share found room behind it, is read in parts: twice as many as went; where none
    went it rests, unless the others leave room in the pass. Now and then a pass looks at some jobs of every
    task: a thousand tasks cost more than the thousand jobs that go, so the rest between two such passes grows
    with their cost.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pass: Pass | None = None
        self._passes = WHOLE_AFTER
        self._looked = self._looked_before = 0
        self._listed: dict[int, Waiting] = {}
        self._list_again = self._look_again = 0.0
        self._is_listed = self._looks_at_all = self._leaves_out = self._had_room = False
        self._goes_on = False
        self._wanted: dict[str, int] = {}
        self._left: set[str] = set()
        self._stayed: set[int] = set()
        self._most: dict[int, int] = {}
        self._were, self._went = Counter[int](), Counter[int]()
        self._crowded: set[int] | None = None

    def crowded(self, found: Callable[[], set[int]]) -> Set[int]:
        """Return tasks with jobs that are pending for want of room: passes read these as if defined (B37).

        ``found`` finds those of before, once.
        """
        if self._crowded is None:
            self._crowded = found()
        return frozenset(self._crowded)

    def wait_for_room(self, tasks: Iterable[int]) -> None:
        """Note tasks of which jobs are now pending for want of room."""
        self._crowded = (self._crowded or set()).union(tasks)

    def parts(self, waiting: Callable[[], Sequence[Waiting]], now: Pass) -> Mapping[int, int]:
        """Return the most jobs of each task that a pass is to read, about as many as its batch in all.

        ``waiting`` lists all tasks that wait, by priority, then age.
        """
        if now is not self._pass:  # it reads once for each plugin
            self._begin(now)
        limit = now.batch
        if self._looks_at_all:
            self._list(waiting)
            return self._some_of_every(limit)
        if self._clock() < self._list_again and (found := self._first(limit)) and self._leaves_out:
            return found
        self._list(waiting)
        return self._first(limit)

    def _begin(self, now: Pass) -> None:
        self._learn()
        self._pass = now
        follows, self._goes_on = self._goes_on, False
        if not follows:
            self._left, self._stayed = set(), set()
            # One that follows finds what the others left: more tasks would have changed the world.
            self._is_listed = False
        self._passes += 1
        self._had_room = False
        self._looks_at_all = self._passes >= WHOLE_AFTER and self._clock() >= self._look_again
        if self._looks_at_all:
            self._passes = 0
            self._looked_before = self._looked
            self._most.clear()

    def _some_of_every(self, limit: int) -> Mapping[int, int]:
        """The first jobs of each share, and some of every other task: what comes first goes first.

        Of more tasks than a pass may have jobs, the next after the last such.
        """
        tasks = list(self._listed)
        # The same for each plugin of a pass: one that read the next would never see its own among the others.
        begin = self._looked_before if self._looked_before < len(tasks) else 0
        looked = tasks[begin : begin + limit]
        self._looked = begin + limit
        found, part = self._first(limit, AMPLE), max(1, limit // max(1, len(looked)))
        self._leaves_out = len(looked) < len(tasks)
        return found | {task: part for task in looked if found.get(task, 0) < part}

    def _list(self, waiting: Callable[[], Sequence[Waiting]]) -> None:
        if not self._is_listed:
            begun = self._clock()
            self._listed = {one.task: one for one in waiting()}
            self._list_again = self._clock() + REST * (self._clock() - begun)
            self._is_listed = True
            self._crowded = self._crowded and self._crowded.intersection(self._listed)

    def _first(self, limit: int, times: int = 1) -> dict[int, int]:
        """The first jobs of each share, so many times as many as may find room."""
        waiting = [one for one in self._listed.values() if one.task not in self._stayed]
        wanted = {one.share: times * self._wanted.get(one.share, LEAST) for one in waiting}
        wanted |= dict.fromkeys(self._left & wanted.keys(), LEAST)
        scale = min(1.0, limit / max(1, sum(wanted.values())))
        left = {share: max(1, int(jobs * scale)) for share, jobs in wanted.items()}
        found: dict[int, int] = {}
        for one in waiting:
            jobs = min(one.jobs, left[one.share], self._most.get(one.task, limit))
            if jobs > 0:
                left[one.share] -= jobs
                # Tasks with the same number are read together: all of a task is always said by the same.
                found[one.task] = limit if jobs == one.jobs else jobs
        # What rests has the room that is left: it may be all that waits, and nothing ahead of it any more.
        for one in waiting:
            jobs = min(one.jobs, left[one.share])
            if jobs > 0 and one.task not in found:
                left[one.share] -= jobs
                found[one.task] = limit if jobs == one.jobs else jobs
        self._leaves_out = any(found.get(one.task, 0) < one.jobs for one in self._listed.values())
        return found

    def note(self, read: Iterable[Job], moved: Iterable[int]) -> bool:
        """Note the jobs of a plugin that a pass read, and the ids of those that went on.

        Returns False where none went while tasks were left out: then all are to be looked at, at once.
        """
        gone, now = set(moved), self._clock()
        left, went = set[tuple[str, str]](), set[tuple[str, str]]()
        for job in read:
            goes = job.id in gone
            self._were[job.task] += 1
            self._went[job.task] += goes
            (went if goes else left).add((job.share, job.requirements))
        self._had_room = self._had_room or not went <= left
        if self._looks_at_all and self._pass is not None:
            self._look_again = now + REST * (now - self._pass.time)
        if gone or not self._leaves_out or now < self._look_again:
            return True
        self._passes = WHOLE_AFTER
        return False

    def goes_on(self, has_changed: bool = False) -> bool:
        """Decide whether another pass is to follow at once, though nothing has changed since the last one.

        It may for jobs of one share and like requirements where all that were read went on; and where tasks
        were left out and a look at all is due. Else jobs stayed for want of room: what makes some wakes the
        step. The next pass then follows this one, unless the world ``has_changed`` and may have more room.
        """
        may_find_room = self._had_room or (self._leaves_out and self._clock() >= self._look_again)
        self._goes_on = may_find_room and not has_changed
        return may_find_room

    def _learn(self) -> None:
        """Draw conclusions from the last pass, of all its plugins together."""
        self._left = set()
        shares: defaultdict[str, list[int]] = defaultdict(list)
        for task, one in self._listed.items():
            if self._were[task]:
                shares[one.share].append(task)
                self._listed[task] = one._replace(jobs=one.jobs - self._went[task])
        self._listed = {task: one for task, one in self._listed.items() if one.jobs > 0}
        for share, tasks in shares.items():
            read, gone = (sum(counted[task] for task in tasks) for counted in (self._were, self._went))
            following = 2 * gone if gone == read else gone * 5 // 4
            # Room comes in lumps, between which passes find little: they are not forgotten at once.
            self._wanted[share] = max(LEAST, following, self._wanted.get(share, 0) * 7 // 8)
            if gone < read:
                self._left.add(share)
                self._stayed.update(task for task in tasks if self._went[task] < self._were[task])
            last = max((place for place, task in enumerate(tasks) if self._went[task]), default=0)
            for place, task in enumerate(tasks):
                self._most.pop(task, None)
                if place < last and self._went[task] < self._were[task]:
                    # Powers of two, too, so that more are read together.
                    went = self._went[task]
                    self._most[task] = 1 << (2 * went - 1).bit_length() if went else 0
        self._were.clear()
        self._went.clear()
