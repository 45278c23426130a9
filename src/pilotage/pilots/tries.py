"""Tasks whose jobs a pilot is not given because they failed fast where it runs, and the one try (F2)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pilotage.model.rules.black_holes import Rest, Scope, scopes

JUDGED_AFTER = 60.0
"""Seconds beyond ``guard.fast`` after which a try that has not failed opens its place."""

TryKey = tuple[str, str, Scope]


@dataclass(frozen=True, slots=True)
class Admission:
    """Whose jobs are kept from a pilot, and those of whom it takes one job as a try.

    ``held`` are the jobs of closed tasks that wait in the task queues of the pilot's queue: rows of
    requirements, priority and jobs.
    """

    closed: frozenset[Scope] = frozenset()
    trying: frozenset[Scope] = frozenset()
    held: tuple[tuple[str, int, int], ...] = ()

    def takes(self, vo: str, owner: str, task: int = 0) -> bool:
        """Tell whether the pilot may be given jobs of a task; of a task 0: of any of the owner's."""
        return self.closed.isdisjoint(scopes(vo, owner, task))

    @property
    def closed_tasks(self) -> frozenset[int]:
        """Tasks that are closed by themselves, whatever else waits in their task queues."""
        return _tasks(self.closed)

    @property
    def trying_tasks(self) -> frozenset[int]:
        """Tasks of which one job may try the place."""
        return _tasks(self.trying)

    @property
    def jobs(self) -> int | None:
        """Most jobs that the pilot may be given at once; None: as many as it asks for."""
        return 1 if self.trying else None


OPEN = Admission()
"""Nothing rests."""


@dataclass(slots=True)
class Tries:
    """Jobs that try places whose rest is over: by place the rest that they try, and when they were given."""

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
        self, rests: Iterable[Rest], queue: str, node: str, concerns: Callable[[Rest], bool], time: float
    ) -> list[TryKey]:
        """Note that a job is given to a pilot there: the try of every place in the answer."""
        begun = []
        for rest in _at(rests, queue, node):
            since, _ = self.given.get(_key(rest), (0.0, 0.0))
            if concerns(rest) and time >= rest.until and since != rest.since:
                self.given[_key(rest)] = (rest.since, time)
                begun.append(_key(rest))
        return begun

    def take_back(self, keys: Iterable[TryKey]) -> None:
        """Forget tries: their jobs were not there any more."""
        for key in keys:
            self.given.pop(key, None)


def _tasks(found: Iterable[Scope]) -> frozenset[int]:
    return frozenset(task for _, _, task in found if task)


def _at(rests: Iterable[Rest], queue: str, node: str) -> Iterable[Rest]:
    return (rest for rest in rests if rest.queue == queue and rest.node in ("", node))


def _key(rest: Rest) -> TryKey:
    return rest.queue, rest.node, rest.whose
