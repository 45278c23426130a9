"""Which waiting tasks found room recently: a pass reads these, in order, and few others.

Nomad's evaluations keep classes of blocked jobs, and wake a class when a queue changes. Why not here:

- Nomad keeps blocked jobs in the memory of one leader. Here several servers decide, and any may stop.
- So the blocked classes would need one more table, with as many writes as jobs.
- A class would be share and requirements. Queues also refuse for inputs, links, owners and failed sites.
- So jobs of one class may fit at different queues, and a blocked class may hold jobs that fit.
- Each ended job makes room at a queue, and this event wakes classes. Most classes fit many queues.
- So busy federations would wake most classes all the time, and read them in each pass.
- A pass takes at most its batch of jobs. The question is how many to read of each share and task.
- These numbers answer that: as many as found room lately, a quarter more, and a look at all now and then.
- A wrong number costs one pass. A lost event would leave jobs waiting for ever.
- The other way has not been measured. To try it, begin with a million jobs in 1,000 tasks.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from pilotage.model.records.work import Job
from pilotage.ports import Clock
from pilotage.store import Pass, Waiting

LEAST = 200
"""Least jobs of a share that a pass reads, if there are that many. If a pass leaves jobs of a share, the next
one reads only this many of it, because its room is mostly used. It skips the tasks of the jobs left."""

WHOLE_AFTER = 8
"""Least number of passes between two full scans."""

AMPLE = 2
"""Read-ahead factor of a full scan: it must not leave room for the wrong jobs."""

REST = 10.0
"""Least pause after listing or scanning all tasks, as a multiple of its duration."""


class BrokerReadPlan:
    """Memory of how tasks fared in a step's passes. It is only a help: losing it does no harm.

    Most passes read, of each share by priority, then age, a quarter more jobs than found room before, or
    twice as many if all did. So jobs waiting behind them cost nothing. A task is overtaken if jobs of its
    share behind it found room. The pass then reads twice as many of its jobs as were placed; if none were, it
    skips the task unless there is space left in the pass. From time to time a pass scans some jobs of every
    task. A thousand tasks cost more than the thousand placed jobs, so the pause between scans grows with
    their cost.
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

    def pending_for_room(self, earlier: Callable[[], set[int]]) -> Set[int]:
        """Return tasks with jobs that are pending for lack of room: passes read these as if DEFINED (B37).

        ``earlier`` is called once, and returns such tasks of passes before this process.
        """
        if self._crowded is None:
            self._crowded = earlier()
        return frozenset(self._crowded)

    def wait_for_room(self, tasks: Iterable[int]) -> None:
        """Record tasks with jobs that are now pending for lack of room."""
        self._crowded = (self._crowded or set()).union(tasks)

    def parts(self, waiting: Callable[[], Sequence[Waiting]], now: Pass) -> Mapping[int, int]:
        """Return the most jobs of each task that a pass should read, about its batch size in all.

        ``waiting`` lists all waiting tasks by priority, then age.
        """
        if now is not self._pass:  # it reads once for each plugin
            self._begin(now)
        limit = now.batch
        if self._looks_at_all:
            self._list(waiting)
            return self._some_of_every(limit)
        if self._clock() < self._list_again and (first := self._first(limit)) and self._leaves_out:
            return first
        self._list(waiting)
        return self._first(limit)

    def _begin(self, now: Pass) -> None:
        self._learn()
        self._pass = now
        follows, self._goes_on = self._goes_on, False
        if not follows:
            self._left, self._stayed = set(), set()
            # A following pass finds what the others left: new tasks would have changed the world.
            self._is_listed = False
        self._passes += 1
        self._had_room = False
        self._looks_at_all = self._passes >= WHOLE_AFTER and self._clock() >= self._look_again
        if self._looks_at_all:
            self._passes = 0
            self._looked_before = self._looked
            self._most.clear()

    def _some_of_every(self, limit: int) -> Mapping[int, int]:
        """Return how many jobs to read of each task: the first of each share, and some of every other task.

        If there are more tasks than a pass may take jobs, continue after the last scan's end.
        """
        tasks = list(self._listed)
        # Equal for all plugins of a pass: otherwise one might never see its own tasks.
        begin = self._looked_before if self._looked_before < len(tasks) else 0
        looked = tasks[begin : begin + limit]
        self._looked = begin + limit
        first, part = self._first(limit, AMPLE), max(1, limit // max(1, len(looked)))
        self._leaves_out = len(looked) < len(tasks)
        return first | {task: part for task in looked if first.get(task, 0) < part}

    def _list(self, waiting: Callable[[], Sequence[Waiting]]) -> None:
        if not self._is_listed:
            begun = self._clock()
            self._listed = {line.task: line for line in waiting()}
            self._list_again = self._clock() + REST * (self._clock() - begun)
            self._is_listed = True
            self._crowded = self._crowded and self._crowded.intersection(self._listed)

    def _first(self, limit: int, times: int = 1) -> dict[int, int]:
        """Return how many jobs to read of each share's first tasks: ``times`` as many as may find room."""
        waiting = [line for line in self._listed.values() if line.task not in self._stayed]
        targets = {line.share: times * self._wanted.get(line.share, LEAST) for line in waiting}
        targets |= dict.fromkeys(self._left & targets.keys(), LEAST)
        scale = min(1.0, limit / max(1, sum(targets.values())))
        rooms = {share: max(1, int(jobs * scale)) for share, jobs in targets.items()}
        parts: dict[int, int] = {}
        for line in waiting:
            jobs = min(line.jobs, rooms[line.share], self._most.get(line.task, limit))
            if jobs > 0:
                rooms[line.share] -= jobs
                # Tasks with equal numbers are read together, so use the same number for "all of a task".
                parts[line.task] = limit if jobs == line.jobs else jobs
        # Skipped tasks get the remaining space: perhaps no other tasks wait now.
        for line in waiting:
            jobs = min(line.jobs, rooms[line.share])
            if jobs > 0 and line.task not in parts:
                rooms[line.share] -= jobs
                parts[line.task] = limit if jobs == line.jobs else jobs
        self._leaves_out = any(parts.get(line.task, 0) < line.jobs for line in self._listed.values())
        return parts

    def note(self, read: Iterable[Job], moved: Iterable[int]) -> bool:
        """Record a plugin's jobs in a pass, and the ids of placed ones.

        Return False if none were placed while tasks were skipped: then the next pass scans all.
        """
        gone, now = set(moved), self._clock()
        stayed, went = set[tuple[str, str]](), set[tuple[str, str]]()
        for job in read:
            goes = job.id in gone
            self._were[job.task] += 1
            self._went[job.task] += goes
            (went if goes else stayed).add((job.share, job.requirements))
        self._had_room = self._had_room or not went <= stayed
        if self._looks_at_all and self._pass is not None:
            self._look_again = now + REST * (now - self._pass.time)
        if gone or not self._leaves_out or now < self._look_again:
            return True
        self._passes = WHOLE_AFTER
        return False

    def goes_on(self, has_changed: bool = False) -> bool:
        """Return whether another pass should follow immediately although nothing has changed.

        It should for jobs of one share with similar requirements if all read ones were placed, and if tasks
        were skipped and a full scan is due. Otherwise jobs stayed for lack of room, and new room wakes the
        step. The next pass then continues from this one, unless the world ``has_changed`` and may have more
        room.
        """
        may_find_room = self._had_room or (self._leaves_out and self._clock() >= self._look_again)
        self._goes_on = may_find_room and not has_changed
        return may_find_room

    def _learn(self) -> None:
        """Learn from the last pass, with all its plugins together."""
        self._left = set()
        shares: defaultdict[str, list[int]] = defaultdict(list)
        for task, line in self._listed.items():
            if self._were[task]:
                shares[line.share].append(task)
                self._listed[task] = line._replace(jobs=line.jobs - self._went[task])
        self._listed = {task: line for task, line in self._listed.items() if line.jobs > 0}
        for share, tasks in shares.items():
            read, gone = (sum(counted[task] for task in tasks) for counted in (self._were, self._went))
            following = 2 * gone if gone == read else gone * 5 // 4
            # Room comes in bursts with little in between: lower the number slowly.
            self._wanted[share] = max(LEAST, following, self._wanted.get(share, 0) * 7 // 8)
            if gone < read:
                self._left.add(share)
                self._stayed.update(task for task in tasks if self._went[task] < self._were[task])
            last = max((place for place, task in enumerate(tasks) if self._went[task]), default=0)
            for place, task in enumerate(tasks):
                self._most.pop(task, None)
                if place < last and self._went[task] < self._were[task]:
                    # Use powers of two here too, so that more tasks are read together.
                    went = self._went[task]
                    self._most[task] = 1 << (2 * went - 1).bit_length() if went else 0
        self._were.clear()
        self._went.clear()
