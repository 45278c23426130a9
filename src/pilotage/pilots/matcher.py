"""The matcher: a pilot takes the jobs of the highest claim among all that it could run (P13)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

import numpy as np

from pilotage.model.documents.decision import Change, Decision, Move
from pilotage.model.documents.world import MatchRequest, World
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import LIVE_PILOTS, JobState
from pilotage.model.records.work import Job, Pilot, Requirements
from pilotage.model.rules.black_holes import Rest, rests
from pilotage.model.rules.site_limits import queues_by_site
from pilotage.model.rules.work_budget import PASSED_OVER, WorkBudget
from pilotage.model.values.step_names import MATCH

from .batch_waits import expected_waits, stay
from .borrowing import BorrowableJob, chosen, claims, moves, offers, room
from .fitting import fits, needs, offered
from .readers import Readers
from .reports import was_given
from .share_turns import ShareTurns
from .task_queues import is_open
from .tries import Admission, Tries
from .weighted_draw import WaitingShares, WeightedDraw


@dataclass(slots=True)
class _Line:
    """The jobs of one task queue in the order in which they leave it, and how many have left."""

    wanted: Requirements
    jobs: list[Job]
    work: WorkBudget
    given: int = 0
    closed: frozenset[int] = frozenset()
    """Tasks whose jobs are kept from the pilot that asks."""

    @property
    def head(self) -> float:
        """The priority of the next job that the pilot may have, 1 at least; 0 where none is left."""
        place = self._next()
        return max(1, self.jobs[place].priority) if place is not None else 0

    def take(self) -> Job:
        """The next job that the pilot may have; it leaves the task queue."""
        place = self._next()
        if place is None:
            raise IndexError("no job of this task queue is left for the pilot")
        # What was passed over moves behind it, and stays in its order.
        self.jobs.insert(self.given, self.jobs.pop(place))
        self.given += 1
        return self.jobs[self.given - 1]

    def _next(self) -> int | None:
        for place in range(self.given, len(self.jobs)):
            if (task := self.jobs[place].task) not in self.closed:
                return place
            self.work.spend(task, PASSED_OVER)
        return None

    @property
    def owner(self) -> tuple[str, str, str]:
        """The owner by whose share its jobs are drawn."""
        return self.wanted.vo, self.wanted.group, self.wanted.owner


def match(world: World) -> Decision:
    """Jobs for each pilot that asks: no job is given twice, and an attempt only to one pilot.

    The global share that is furthest below its target goes first. In it a task queue is drawn in proportion
    to the priority of the job at its head, as a share of its owner, who has no more of many task queues than
    of one; within it jobs go by priority, then age. Requests are served by pilot, whatever order they stand
    in. A pilot that is not alive is given nothing. What is still free takes jobs of other queues: those that
    it ends sooner, then those that are bound to none (E1, E2).
    ``notes`` tell how long those stay that are given nothing (E5).
    """
    queues = {queue.name: queue for queue in world.federation.queues if is_open(queue)}
    pilots = {pilot.id: pilot for pilot in world.pilots if pilot.state in LIVE_PILOTS}
    lines, elsewhere = _lines(world), _Elsewhere(world)
    shares = ShareTurns(world.federation.shares, world.job_counts)
    guard = _Guard(world)
    changes: list[Change] = []
    idle: set[str] = set()
    for request in sorted(world.requests, key=lambda request: request.pilot):
        pilot, queue = pilots.get(request.pilot), queues.get(request.queue)
        if pilot is None:
            continue
        jobs: list[Job] = []
        borrowed: list[BorrowableJob] = []
        if queue:
            own, admission = lines[queue.name], guard.admission(queue, pilot)
            jobs = _take(world.seed, request, pilot, queue, own, admission, shares)
            guard.given(queue, pilot, jobs)
            borrowed = elsewhere.take(request.less(jobs), pilot, queue, guard.admission(queue, pilot))
            guard.given(queue, pilot, [offer.job for offer in borrowed])
        elsewhere.taken.update(job.id for job in jobs)
        _leave_all(lines, borrowed, shares)
        changes.append(was_given(world.time, pilot, len(jobs) + len(borrowed)))
        if jobs:
            changes.append(_sent(pilot, jobs))
        if queue and not jobs and not borrowed:
            idle.add(queue.name)
        if borrowed and queue:
            changes.extend(moves(borrowed, pilot, queue, world.time, *claims(world, queue)))
    notes = {"stays": _stays(world, [queues[name] for name in sorted(idle)])} if idle else {}
    return Decision(step=MATCH, time=world.time, seed=world.seed, changes=tuple(changes), notes=notes)


@dataclass(slots=True)
class _Guard:
    """The places of a world that rest, and the jobs that try them (F2)."""

    world: World
    _rests: tuple[Rest, ...] = field(init=False)
    _tries: Tries = field(init=False)

    def __post_init__(self) -> None:
        constants = self.world.federation.guard
        self._rests = rests(self.world.failures, constants)
        self._tries = Tries(fast=constants.fast)

    def admission(self, queue: Queue, pilot: Pilot) -> Admission:
        """Return the admission of a pilot, after all that was given until now."""
        return self._tries.admission(self._rests, queue.name, pilot.place, self.world.time)

    def given(self, queue: Queue, pilot: Pilot, jobs: Iterable[Job]) -> None:
        """Note jobs that a pilot is given: one may be the try of its place."""
        for job in jobs:
            concerns = partial(_concerns, job=job)
            self._tries.begin(self._rests, queue.name, pilot.place, concerns, self.world.time)


def _leave_all(
    lines: Mapping[str, Iterable[_Line]], borrowed: Sequence[BorrowableJob], shares: ShareTurns
) -> None:
    """Take borrowed jobs out of their own queues' lines, and count them for their shares."""
    for offer in borrowed:
        _leave(lines[offer.job.queue], offer.job)
        shares.give(offer.job.share)


def _stays(world: World, queues: Sequence[Queue]) -> list[Mapping[str, object]]:
    """The s that pilots of queues stay without work, and that new ones would wait there (E5)."""
    waits, loops = expected_waits(world.pilots, world.time), world.federation.loops
    return [
        {"queue": queue.name, "seconds": stay(loops, queue, wait), "wait": wait}
        for queue in queues
        for wait in (waits.get(queue.name, 0.0),)
    ]


@dataclass(slots=True)
class _Elsewhere:
    """The jobs of other queues that pilots of each queue might take, read once for each; none goes twice.

    ``readers`` and ``rooms`` are those of each site.
    """

    world: World
    offers: dict[str, tuple[BorrowableJob, ...]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    readers: defaultdict[str, Readers] = field(default_factory=lambda: defaultdict(Readers))
    rooms: dict[str, int] = field(default_factory=dict)

    def take(
        self, request: MatchRequest, pilot: Pilot, queue: Queue, admission: Admission
    ) -> list[BorrowableJob]:
        """Take what a pilot has room for."""
        if request.max_jobs < 1 or request.cores < 1:
            return []
        if queue.name not in self.offers:
            found = offers(self.world, queue.name)
            self.offers[queue.name] = tuple(offer for offer in found if offer.is_open)
            self.rooms.setdefault(queue.site, room(self.world, queue))
        left = [offer for offer in self.offers[queue.name] if offer.job.id not in self.taken]
        # What a site has no room for, its claim would hand back (M8); what is there already needs none.
        near, room_left = queues_by_site(self.world.federation)[queue.site], self.rooms[queue.site]
        if room_left > 0:
            request = replace(request, max_jobs=min(request.max_jobs, room_left))
        else:
            left = [offer for offer in left if offer.job.queue in near]
        taken = chosen(left, request, pilot, queue, admission, self.readers[queue.site])
        self.rooms[queue.site] -= sum(offer.job.queue not in near for offer in taken)
        self.taken |= {offer.job.id for offer in taken}
        return taken


def _lines(world: World) -> dict[str, list[_Line]]:
    """The task queues of each queue, both in a stable order."""
    found: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for job in world.jobs:
        if job.state == JobState.ACTIVATED:
            found[job.queue, job.requirements].append(job)
    lines: dict[str, list[_Line]] = defaultdict(list)
    work = WorkBudget()
    for (queue, text), jobs in sorted(found.items(), key=lambda item: item[0]):
        jobs.sort(key=lambda job: (-job.priority, job.created, job.id))
        lines[queue].append(_Line(Requirements.from_text(text), jobs, work))
    return lines


def _leave(lines: Iterable[_Line], job: Job) -> None:
    """Take a job that a pilot of another queue has out of its task queue."""
    for line in lines:
        if job in line.jobs:
            line.jobs.remove(job)


def _take(
    seed: int,
    request: MatchRequest,
    pilot: Pilot,
    queue: Queue,
    lines: Sequence[_Line],
    admission: Admission,
    shares: ShareTurns,
) -> list[Job]:
    """The jobs that one pilot takes, until it has its number, or none of what is left fits."""
    fitting = [
        line
        for line in lines
        if fits(needs(line.wanted, queue), offered(request, pilot))
        and admission.takes(line.wanted.vo, line.wanted.owner)
    ]
    for line in fitting:
        line.closed = admission.closed_tasks
    cores, memory, gpus = request.cores, request.memory or inf, request.gpus
    most = request.max_jobs if admission.jobs is None else min(request.max_jobs, admission.jobs)
    taken: list[Job] = []
    turns = _turns(seed, request.pilot, fitting, shares)
    while len(taken) < most and cores >= 1 and (index := turns.draw()) is not None:
        line = fitting[index]
        if line.wanted.cores > cores or line.wanted.memory > memory or line.wanted.gpus > gpus:
            turns.follow(index, 0)
            continue
        taken.append(line.take())
        shares.give(line.wanted.share)
        turns.follow(index, line.head)
        cores -= line.wanted.cores
        memory -= line.wanted.memory
        gpus -= line.wanted.gpus
    return taken


def _turns(seed: int, pilot: int, lines: Sequence[_Line], shares: ShareTurns) -> WeightedDraw:
    numbers: dict[tuple[str, str, str], int] = {}
    owners = [numbers.setdefault(line.owner, len(numbers)) for line in lines]
    heads = np.array([line.head for line in lines], dtype=np.float64)
    names = list(dict.fromkeys(line.wanted.share for line in lines))
    of = np.array([names.index(line.wanted.share) for line in lines], dtype=np.int64)
    several = WaitingShares.among(of, names, shares)
    return WeightedDraw(seed, pilot, heads, np.array(owners, dtype=np.int64), shares=several)


def _concerns(rest: Rest, job: Job) -> bool:
    wanted = Requirements.from_text(job.requirements)
    return rest.holds_for(wanted.vo, wanted.owner, job.task)


def _sent(pilot: Pilot, jobs: Sequence[Job]) -> Move:
    return Move(
        kind="job",
        ids=tuple(job.id for job in jobs),
        attempts=tuple(job.attempt for job in jobs),
        source=JobState.ACTIVATED,
        target=JobState.SENT,
        cause="matched to a pilot (P13)",
        changes={"pilot": pilot.id},
    )
