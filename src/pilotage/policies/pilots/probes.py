"""Whose jobs a pilot is not given: they failed fast where it runs (F2), its storage takes no outputs (F4), or
they need unreadable secrets."""

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
"""A task, the requirements and priority of jobs of it that wait, and how many."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Whose jobs are kept from a pilot, and those of whom it takes one job as a probe.

    ``held`` are the jobs of closed tasks that wait in the task queues of the pilot's queue: rows of
    requirements, priority and jobs. ``unreadable`` are people, by VO and name, whose secrets the server
    cannot decrypt: it leaves jobs that need them to other servers.
    """

    closed: frozenset[Scope] = frozenset()
    probing: frozenset[Scope] = frozenset()
    held: tuple[tuple[str, int, int], ...] = ()
    unreadable: Collection[tuple[str, str]] = frozenset()

    def takes(self, vo: str, owner: str, task: int = 0) -> bool:
        """Tell whether the pilot may be given jobs of a task; of a task 0: of any of the owner's."""
        return self.closed.isdisjoint(scopes(vo, owner, task))

    def gives_secrets(self, vo: str, owner: str) -> bool:
        """Tell whether the server can give the owner's jobs their secrets."""
        return (vo, owner) not in self.unreadable

    @property
    def closed_tasks(self) -> frozenset[int]:
        """Tasks that are closed by themselves, whatever else waits in their task queues."""
        return _tasks(self.closed)

    @property
    def probing_tasks(self) -> frozenset[int]:
        """Tasks that may send one job to probe the place."""
        return _tasks(self.probing)

    def limited(self, request: MatchRequest) -> MatchRequest:
        """Return a request for no more jobs than the pilot may have at once: one that probes its place."""
        return replace(request, max_jobs=1) if self.probing and request.max_jobs > 1 else request

    def with_waiting(self, waiting: Sequence[WaitingJobs]) -> "Admission":
        """Complete it by the jobs that wait at the pilot's queue, of the tasks that it names."""
        if not (self.closed_tasks or self.probing_tasks):
            return self
        closed, present = self.closed_tasks, {task for task, *_ in waiting}
        # A task without a waiting job probes nothing, and others need not wait for it.
        probing = frozenset(one for one in self.probing if not one[-1] or one[-1] in present)
        held = tuple((name, at, jobs) for task, name, at, jobs in waiting if task in closed)
        return replace(self, probing=probing, held=held)


OPEN = Admission()
"""Every breaker is closed."""


@dataclass(slots=True)
class Probes:
    """Jobs that probe half-open places: by place the opening that they probe, and the time of the match."""

    fast: float
    given: dict[ProbeKey, tuple[float, float]] = field(default_factory=dict)

    def admission(self, breakers: Iterable[CircuitBreaker], queue: str, node: str, time: float) -> Admission:
        """Return the admission of a pilot at a node of a queue now."""
        closed: set[Scope] = set()
        probing: set[Scope] = set()
        for one in _at(breakers, queue, node):
            since, begun = self.given.get(_key(one), (0.0, 0.0))
            is_probed = since == one.since
            if one.state(time) == "open" or (is_probed and time - begun <= self.fast + JUDGED_AFTER):
                closed.add(one.whose)
            elif not is_probed:
                probing.add(one.whose)
        return Admission(frozenset(closed), frozenset(probing - closed)) if closed or probing else OPEN

    def begin(
        self,
        breakers: Iterable[CircuitBreaker],
        queue: str,
        node: str,
        requirements: Iterable[str],
        time: float,
    ) -> list[ProbeKey]:
        """Note that a pilot there gets jobs of task queues: they probe every place in the answer."""
        wanted = (Requirements.from_text(text) for text in set(requirements))
        owners = {(one.vo, one.owner) for one in wanted}
        begun = []
        for one in _at(breakers, queue, node) if owners else ():
            since, _ = self.given.get(_key(one), (0.0, 0.0))
            concerned = one.whose == EVERYBODY or one.whose[:2] in owners
            if concerned and one.state(time) == "half-open" and since != one.since:
                self.given[_key(one)] = (one.since, time)
                begun.append(_key(one))
        return begun

    def settle(self, keys: Iterable[ProbeKey], given: Iterable[Job]) -> None:
        """Forget the probes of unassigned jobs: others took them, or they were spares."""
        served: set[Scope] = set()
        for job in given:
            wanted = Requirements.from_text(job.requirements)
            served.update(scopes(wanted.vo, wanted.owner, job.task))
        for key in keys:
            if key[-1] not in served:
                self.given.pop(key, None)


def _tasks(found: Iterable[Scope]) -> frozenset[int]:
    return frozenset(task for _, _, task in found if task)


def _at(breakers: Iterable[CircuitBreaker], queue: str, node: str) -> Iterable[CircuitBreaker]:
    return (one for one in breakers if one.place[0] == queue and one.place[1] in ("", node))


def _key(one: CircuitBreaker) -> ProbeKey:
    return one.key, one.whose


def of_unwritable_storages(
    federation: Federation, breakers: Iterable[CircuitBreaker]
) -> tuple[CircuitBreaker, ...]:
    """Return a breaker for each queue to whose storage nothing can be written (F4).

    Its pilots would leave their outputs there, whatever they compute.
    """
    closed = {one.place[1]: one for one in breakers if not one.place[0]}
    return tuple(
        replace(closed[queue.storage], place=(queue.name, ""))
        for queue in federation.queues
        if queue.storage in closed
    )
