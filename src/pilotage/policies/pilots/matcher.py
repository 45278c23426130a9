"""The matcher: choose jobs for a pilot by a weighted draw over the task queues that it could serve (P13).

Servers use ``claim`` and ``.borrowing.Look`` with task queues in memory. A plan uses ``match`` with a world.
Both choose only task queues and priorities. The commit finds the jobs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.circuit_breakers.jobs import job_breakers
from pilotage.model.documents.decision import Change, Decision
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.matching import (
    BorrowRequest,
    ClaimRequest,
    Head,
    MatchRequest,
    PriorityLevel,
)
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS, JobState
from pilotage.model.records.unified_queues import queues_served
from pilotage.model.records.work import Job, Pilot
from pilotage.model.rules.job_order import Heads, levels_of
from pilotage.model.values.step_names import MATCH
from pilotage.policies.pilots.batch_waits import expected_waits, stay
from pilotage.policies.pilots.borrowing import Look, Readers, look, room
from pilotage.policies.pilots.containment import described
from pilotage.policies.pilots.probes import OPEN, Admission, Probes, of_unwritable_storages
from pilotage.policies.pilots.pseudo_queues import in_turn
from pilotage.policies.pilots.reports import called_home
from pilotage.policies.pilots.share_turns import ShareTurns
from pilotage.policies.pilots.task_queue_columns import Draw, Level, TaskQueueColumns, columns, draw
from pilotage.policies.pilots.task_queues import is_open


def claim(
    columns: TaskQueueColumns,
    request: MatchRequest,
    pilot: Pilot,
    seed: int,
    admission: Admission = OPEN,
    turns: ShareTurns | None = None,
) -> ClaimRequest:
    """Draw jobs of a pilot's queue, and return their numbers by task queue and priority.

    The global share that is furthest below its target goes first. A task queue of it is drawn in proportion
    to the priority of its first job. An owner's task queues count as one, so an owner does not gain by having
    many. The jobs of a task queue go by priority, then age, then number.
    """
    return claimed(pilot, draw(columns, admission.limited(request), pilot, seed, admission, turns), admission)


def claimed(pilot: Pilot, draws: Iterable[Draw], admission: Admission) -> ClaimRequest:
    """Return the request for the jobs drawn for a pilot, with one entry for each task queue and priority."""
    return ClaimRequest(
        pilot=pilot.id,
        queue=pilot.queue,
        heads=tuple(
            [
                Head(requirements=requirements, priority=priority, jobs=jobs)
                for (requirements, priority), jobs in Counter(draws).items()
            ]
        ),
        passed_over=tuple(sorted(admission.closed_tasks)),
        containment=pilot.containment,
        node=pilot.node,
    )


def match(world: World) -> Decision:
    """Choose jobs for each pilot that requests some; each attempt goes to one pilot only.

    Requests are served in the order of pilots' numbers. A pilot that is not live gets nothing. With its free
    resources a pilot then takes jobs of other queues: first jobs that end sooner here, then jobs not bound to
    a queue (E1, E2). ``notes`` has the time that pilots without jobs stay (E5).
    """
    pilots = {pilot.id: pilot for pilot in world.pilots if pilot.state in LIVE_PILOTS}
    asking = [
        (request, pilots[request.pilot])
        for request in sorted(world.requests, key=lambda request: request.pilot)
        if request.pilot in pilots
    ]
    work = _Work(world)
    changes: list[Change] = [
        *called_home(world.time, *(pilot for _, pilot in asking if pilot.state in WAITING_PILOTS))
    ]
    idle: set[str] = set()
    for request, pilot in asking:
        requests = work.requests(request, pilot)
        changes += requests
        if request.queue in work.open and not any(map(_takes, requests)):
            idle.add(request.queue)
    notes = {"stays": _stays(world, [work.queues[name] for name in sorted(idle)])} if idle else {}
    return Decision(step=MATCH, time=world.time, seed=world.seed, changes=tuple(changes), notes=notes)


def _takes(request: ClaimRequest | BorrowRequest) -> bool:
    return isinstance(request, BorrowRequest) or bool(request.heads)


def _stays(world: World, queues: Sequence[Queue]) -> list[Mapping[str, object]]:
    """Return for each queue how many s pilots without work stay, and how many s new ones would wait (E5)."""
    waits, loops = expected_waits(world.pilots, world.time), world.federation.loops
    return [
        {"queue": queue.name, "seconds": stay(loops, queue, wait), "wait": wait}
        for queue in queues
        for wait in (waits.get(queue.name, 0.0),)
    ]


@dataclass(slots=True)
class _Work:
    """The waiting jobs of a world, reduced by each pilot in turn.

    ``_readers`` and ``_rooms`` are by site.
    """

    world: World
    queues: Mapping[str, Queue] = field(init=False)
    open: frozenset[str] = field(init=False)
    _served: Callable[[str], tuple[str, ...]] = field(init=False)
    _levels: defaultdict[str, list[PriorityLevel]] = field(init=False)
    _columns: dict[str, TaskQueueColumns] = field(default_factory=dict)
    _heads: Heads = field(init=False)
    _jobs: Mapping[int, Job] = field(init=False)
    _turns: ShareTurns | None = field(init=False)
    _breakers: tuple[CircuitBreaker, ...] = field(init=False)
    _probes: Probes = field(init=False)
    _looks: dict[str, Look] = field(default_factory=dict)
    _readers: defaultdict[str, Readers] = field(default_factory=lambda: defaultdict(Readers))
    _rooms: dict[str, int] = field(default_factory=dict)
    _gone_jobs: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        world = self.world
        self.queues = {queue.name: queue for queue in world.federation.queues}
        self.open = frozenset(name for name, queue in self.queues.items() if is_open(queue))
        self._served = cache(partial(queues_served, world.federation))
        levels = world.levels or levels_of(world.jobs, {failure.task for failure in world.failures})
        self._levels = defaultdict(list)
        for level in levels:
            self._levels[level.queue].append(level)
        self._heads = Heads(world.jobs)
        self._jobs = {job.id: job for job in world.jobs}
        self._turns = ShareTurns.of(world.federation.shares, lambda: world.job_counts)
        self._breakers = (
            *job_breakers(world.failures, world.federation),
            *of_unwritable_storages(world.federation, world.storage_breakers),
        )
        self._probes = Probes(fast=world.federation.guard.fast)

    def requests(self, request: MatchRequest, pilot: Pilot) -> list[ClaimRequest | BorrowRequest]:
        """Return a pilot's requests, as a server makes them; at a unified queue all go to one pseudo-queue
        (B2)."""
        columns = {name: self._columns_of(name) for name in self._served(request.queue)}
        for name in in_turn(columns, request, pilot, self.world.seed, self._turns):
            queue_requests = list(self._requests(replace(request, queue=name), replace(pilot, queue=name)))
            if any(map(_takes, queue_requests)):
                break
        return queue_requests

    def _requests(self, request: MatchRequest, pilot: Pilot) -> Iterator[ClaimRequest | BorrowRequest]:
        """Yield the request for jobs of a pilot's queue, then requests for jobs of other queues."""
        queue = self.queues.get(request.queue)
        pilot = described(pilot, queue, request)
        columns, admission = self._columns_of(request.queue), self._admission(pilot)
        claimed = claim(columns, request, pilot, self.world.seed, admission, self._turns)
        self._claimed(columns, claimed, pilot)
        rest = request.less([head.requirements for head in claimed.heads for _ in range(head.jobs)])
        borrowed = list(self._borrowed(rest, pilot, queue)) if queue and is_open(queue) else []
        if claimed.heads or not borrowed:
            yield claimed
        yield from borrowed

    def _columns_of(self, name: str) -> TaskQueueColumns:
        if name not in self._columns:
            standing = [Level(level.requirements, level.priority, level.jobs) for level in self._levels[name]]
            self._columns[name] = columns(self.queues.get(name), standing)
        return self._columns[name]

    def _admission(self, pilot: Pilot) -> Admission:
        """Return the admission of a pilot after all matches so far (F2)."""
        admission = self._probes.admission(self._breakers, pilot.queue, pilot.place, self.world.time)
        if admission is OPEN:
            return OPEN
        waiting = [
            (task, level.requirements, level.priority, jobs)
            for level in self._levels[pilot.queue]
            for task, jobs in level.tasks.items()
        ]
        return admission.with_waiting(waiting)

    def _claimed(self, columns: TaskQueueColumns, request: ClaimRequest, pilot: Pilot) -> None:
        for head in request.heads:
            columns.remove(Draw(head.requirements, head.priority), head.jobs)
        jobs = self._heads.take(request)
        self._gone(job.id for job in jobs)
        self._probe(pilot, {head.requirements for head in request.heads}, jobs)

    def _borrowed(self, rest: MatchRequest, pilot: Pilot, queue: Queue) -> Iterator[BorrowRequest]:
        offers = self._look(queue)
        while rest.max_jobs > 0 and rest.cores > 0:
            # Without room at the site, the commit would refuse the claim (M8). Jobs near the site claim none.
            if self._rooms[queue.site] <= 0:
                offers.keep_near()
            request = offers.request(rest, pilot, self._admission(pilot))
            if request is None:
                return
            yield request
            attempts = request.jobs[: request.most]
            offers.note(request, [attempt.borrowing.job for attempt in attempts])
            self._rooms[queue.site] -= sum(
                attempt.borrowing.preferred not in offers.near for attempt in attempts
            )
            jobs = [self._jobs[attempt.borrowing.job] for attempt in attempts]
            self._heads.leave(jobs)
            for job in jobs:
                if job.state is JobState.ACTIVATED:
                    self._columns_of(job.queue).remove(Draw(job.requirements, job.priority), 1)
                if self._turns is not None:
                    self._turns.give(job.share)
            self._gone(job.id for job in jobs)
            self._probe(pilot, {attempt.requirements for attempt in attempts}, jobs)
            rest = rest.less([attempt.requirements for attempt in attempts])

    def _look(self, queue: Queue) -> Look:
        """Return the jobs of other queues that a queue's pilots take, without jobs that are gone."""
        if queue.name not in self._looks:
            offers = look(self.world, queue)
            offers.readers = self._readers[queue.site]
            offers.leave(self._gone_jobs)
            self._looks[queue.name] = offers
            self._rooms.setdefault(queue.site, room(self.world, queue))
        return self._looks[queue.name]

    def _gone(self, numbers: Iterable[int]) -> None:
        gone = list(numbers)
        self._gone_jobs.update(gone)
        for offers in self._looks.values():
            offers.leave(gone)

    def _probe(self, pilot: Pilot, requirements: Iterable[str], jobs: Sequence[Job]) -> None:
        """Note the probes of the pilot's place that these jobs may be. If the world has no jobs, only levels,
        their owners are unknown."""
        keys = self._probes.begin(self._breakers, pilot.queue, pilot.place, requirements, self.world.time)
        if jobs:
            self._probes.settle(keys, jobs)
