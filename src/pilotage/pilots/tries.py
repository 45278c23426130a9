"""Tasks whose jobs are withheld from a pilot because they failed fast where it runs, and the one trial
(F2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import Job, Requirements
from pilotage.model.rules.black_holes import EVERYBODY, Rest, Scope, scopes

JUDGED_AFTER = 60.0
"""Seconds beyond ``guard.fast`` after which a trial that has not failed opens its place."""

TryKey = tuple[str, str, Scope]

WaitingJobs = tuple[int, str, int, int]
"""A task, the requirements and priority of jobs of it that wait, and how many."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Whose jobs are withheld from a pilot, and whose are limited to one trial job.

    ``held`` are the jobs of closed tasks that wait in the pilot's queue: rows of requirements, priority and
    jobs.
    """

    closed: frozenset[Scope] = frozenset()
    trying: frozenset[Scope] = frozenset()
    held: tuple[tuple[str, int, int], ...] = ()

    def takes(self, vo: str, owner: str, task: int = 0) -> bool:
        """Return whether the pilot may be given jobs of a task; of a task 0: of any of the owner's."""
        return self.closed.isdisjoint(scopes(vo, owner, task))

    @property
    def closed_tasks(self) -> frozenset[int]:
        """Return tasks that are closed individually, whatever else waits in their task queues."""
        return _tasks(self.closed)

    @property
    def trying_tasks(self) -> frozenset[int]:
        """Return tasks with one job that may try the place."""
        return _tasks(self.trying)

    def limited(self, request: MatchRequest) -> MatchRequest:
        """Return a request for no more jobs than the pilot may have at once: one that tries its place."""
        return replace(request, max_jobs=1) if self.trying and request.max_jobs > 1 else request

    def with_waiting(self, waiting: Sequence[WaitingJobs]) -> "Admission":
        """Complete it by the jobs that wait at the pilot's queue, of the tasks that it names."""
        if not (self.closed_tasks or self.trying_tasks):
            return self
        closed, present = self.closed_tasks, {task for task, *_ in waiting}
        # A task without a waiting job tries nothing, and others need not wait for it.
        trying = frozenset(one for one in self.trying if not one[-1] or one[-1] in present)
        held = tuple((name, at, jobs) for task, name, at, jobs in waiting if task in closed)
        return replace(self, trying=trying, held=held)


OPEN = Admission()
"""Nothing is paused."""


@dataclass(slots=True)
class Tries:
    """Jobs that try places after their pause: by place, the pause, and when a pilot got the jobs."""

    fast: float
    given: dict[TryKey, tuple[float, float]] = field(default_factory=dict)

    def admission(self, rests: Iterable[Rest], queue: str, node: str, time: float) -> Admission:
        """Return the admission of a pilot at a node of a queue now."""
        closed: set[Scope] = set()
        trying: set[Scope] = set()
        for rest in _at(rests, queue, node):
            since, tried = self.given.get(_key(rest), (0.0, 0.0))
            if time < rest.until or (since == rest.since and time - tried <= self.fast + JUDGED_AFTER):
                closed.add(rest.whose)
            elif since != rest.since:
                trying.add(rest.whose)
        return Admission(frozenset(closed), frozenset(trying - closed)) if closed or trying else OPEN

    def begin(
        self, rests: Iterable[Rest], queue: str, node: str, requirements: Iterable[str], time: float
    ) -> list[TryKey]:
        """Note that jobs of task queues are given to a pilot there: the try of every place in the answer."""
        wanted = (Requirements.from_text(text) for text in set(requirements))
        owners = {(one.vo, one.owner) for one in wanted}
        begun = []
        for rest in _at(rests, queue, node) if owners else ():
            since, _ = self.given.get(_key(rest), (0.0, 0.0))
            concerned = rest.whose == EVERYBODY or rest.whose[:2] in owners
            if concerned and time >= rest.until and since != rest.since:
                self.given[_key(rest)] = (rest.since, time)
                begun.append(_key(rest))
        return begun

    def settle(self, keys: Iterable[TryKey], given: Iterable[Job]) -> None:
        """Forget the tries of those of whom no job was given: others took them, or they were spares."""
        served: set[Scope] = set()
        for job in given:
            wanted = Requirements.from_text(job.requirements)
            served.update(scopes(wanted.vo, wanted.owner, job.task))
        for key in keys:
            if key[-1] not in served:
                self.given.pop(key, None)


def _tasks(found: Iterable[Scope]) -> frozenset[int]:
    return frozenset(task for _, _, task in found if task)


def _at(rests: Iterable[Rest], queue: str, node: str) -> Iterable[Rest]:
    return (rest for rest in rests if rest.queue == queue and rest.node in ("", node))


def _key(rest: Rest) -> TryKey:
    return rest.queue, rest.node, rest.whose
