"""Owners and tasks that a pilot gets no jobs of: their jobs failed fast where it runs (F2), its storage takes
no outputs (F4), or they need unreadable secrets."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from pilotage.model.circuit_breakers.breaker import EVERYBODY, CircuitBreaker, Key, Scope, scopes
from pilotage.model.records.federation import Federation
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import Job, Requirements

JUDGED_AFTER = 60.0
"""Seconds beyond ``guard.fast`` after which a probe that has not failed closes the breaker."""

ProbeKey = tuple[Key, Scope]

WaitingJobs = tuple[int, str, int, int]
"""A task, and the requirements, priority and number of its waiting jobs."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Owners and tasks that a pilot gets no jobs of (``closed``), or only one job as a probe (``probing``).

    ``withheld`` are the jobs of closed tasks that wait in the task queues of the pilot's queue: rows of
    requirements, priority and jobs. ``unreadable`` are owners (VO and name) with secrets that this server
    cannot decrypt. Another server must give out jobs that need them.
    """

    closed: frozenset[Scope] = frozenset()
    probing: frozenset[Scope] = frozenset()
    withheld: tuple[tuple[str, int, int], ...] = ()
    unreadable: Collection[tuple[str, str]] = frozenset()

    def takes(self, vo: str, owner: str, task: int = 0) -> bool:
        """Return whether the pilot may get jobs of a task; 0 means any task of the owner."""
        return self.closed.isdisjoint(scopes(vo, owner, task))

    def gives_secrets(self, vo: str, owner: str) -> bool:
        """Return whether the server can give the owner's jobs their secrets."""
        return (vo, owner) not in self.unreadable

    @property
    def closed_tasks(self) -> frozenset[int]:
        """Return the tasks that are closed alone, not with all of their owner's."""
        return _tasks(self.closed)

    @property
    def probing_tasks(self) -> frozenset[int]:
        """Return the tasks that may send one job to probe the place."""
        return _tasks(self.probing)

    def limited(self, request: MatchRequest) -> MatchRequest:
        """Return a request for a single job if it would probe the place, else the same request."""
        return replace(request, max_jobs=1) if self.probing and request.max_jobs > 1 else request

    def with_waiting(self, waiting: Sequence[WaitingJobs]) -> "Admission":
        """Return the admission with the waiting jobs of its closed tasks, and without probing tasks that have
        none."""
        if not (self.closed_tasks or self.probing_tasks):
            return self
        closed, present = self.closed_tasks, {task for task, *_ in waiting}
        # A task without a waiting job cannot probe, and must not hold up others.
        probing = frozenset(scope for scope in self.probing if not scope[-1] or scope[-1] in present)
        withheld = tuple((name, at, jobs) for task, name, at, jobs in waiting if task in closed)
        return replace(self, probing=probing, withheld=withheld)


OPEN = Admission()
"""Every breaker is closed."""


@dataclass(slots=True)
class Probes:
    """Jobs that probe half-open breakers: for each breaker, the time when it opened, and the time of the
    match."""

    fast: float
    begun: dict[ProbeKey, tuple[float, float]] = field(default_factory=dict)

    def admission(self, breakers: Iterable[CircuitBreaker], queue: str, node: str, time: float) -> Admission:
        """Return the admission of a pilot at a node of a queue now."""
        closed: set[Scope] = set()
        probing: set[Scope] = set()
        for breaker in _at(breakers, queue, node):
            since, begun = self.begun.get(_key(breaker), (0.0, 0.0))
            is_probed = since == breaker.since
            if breaker.state(time) == "open" or (is_probed and time - begun <= self.fast + JUDGED_AFTER):
                closed.add(breaker.whose)
            elif not is_probed:
                probing.add(breaker.whose)
        return Admission(frozenset(closed), frozenset(probing - closed)) if closed or probing else OPEN

    def begin(
        self,
        breakers: Iterable[CircuitBreaker],
        queue: str,
        node: str,
        requirements: Iterable[str],
        time: float,
    ) -> list[ProbeKey]:
        """Note that a pilot there gets jobs of task queues; return the breakers that these jobs probe."""
        parsed = (Requirements.from_text(text) for text in set(requirements))
        owners = {(needs.vo, needs.owner) for needs in parsed}
        begun = []
        for breaker in _at(breakers, queue, node) if owners else ():
            since, _ = self.begun.get(_key(breaker), (0.0, 0.0))
            concerned = breaker.whose == EVERYBODY or breaker.whose[:2] in owners
            if concerned and breaker.state(time) == "half-open" and since != breaker.since:
                self.begun[_key(breaker)] = (breaker.since, time)
                begun.append(_key(breaker))
        return begun

    def settle(self, keys: Iterable[ProbeKey], jobs: Iterable[Job]) -> None:
        """Forget the probes of unassigned jobs: others took them, or they were spares."""
        served: set[Scope] = set()
        for job in jobs:
            requirements = Requirements.from_text(job.requirements)
            served.update(scopes(requirements.vo, requirements.owner, job.task))
        for key in keys:
            if key[-1] not in served:
                self.begun.pop(key, None)


def _tasks(scopes: Iterable[Scope]) -> frozenset[int]:
    return frozenset(task for _, _, task in scopes if task)


def _at(breakers: Iterable[CircuitBreaker], queue: str, node: str) -> Iterable[CircuitBreaker]:
    return (breaker for breaker in breakers if breaker.place[0] == queue and breaker.place[1] in ("", node))


def _key(breaker: CircuitBreaker) -> ProbeKey:
    return breaker.key, breaker.whose


def of_unwritable_storages(
    federation: Federation, breakers: Iterable[CircuitBreaker]
) -> tuple[CircuitBreaker, ...]:
    """Return a breaker for each queue with a storage that takes no files (F4).

    Its pilots could not store any outputs.
    """
    closed = {breaker.place[1]: breaker for breaker in breakers if not breaker.place[0]}
    return tuple(
        replace(closed[queue.storage], place=(queue.name, ""))
        for queue in federation.queues
        if queue.storage in closed
    )
