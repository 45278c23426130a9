"""The matches of one process: knowledge of task queues and pilots, cached while it holds."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pilotage.flow.errors import PilotGone, PilotRefused
from pilotage.flow.matching.admissions import Admissions, UnreadableOwners
from pilotage.flow.matching.borrowing import BorrowableJobs
from pilotage.flow.matching.matched import Matched, matched
from pilotage.flow.matching.share_cache import ShareCache
from pilotage.model.documents.decision import Decision
from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.matching import BorrowRequest, ClaimRequest, MatchRequest
from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.model.records.unified_queues import queues_served
from pilotage.model.records.work import Job, Pilot
from pilotage.model.values.step_names import MATCH
from pilotage.policies.pilots import containment as containments
from pilotage.policies.pilots import matcher
from pilotage.policies.pilots.probes import Admission, ProbeKey
from pilotage.policies.pilots.pseudo_queues import in_turn
from pilotage.policies.pilots.reports import calls
from pilotage.policies.pilots.task_queue_columns import Draw, Level, TaskQueueColumns, columns, unfit_jobs
from pilotage.policies.pilots.task_queues import is_open
from pilotage.store import Store
from pilotage.store.matching.match_requests import Basis, ClaimResult, Standing

TRIES = 30
"""Most redraws for a pilot that lost races for drawn jobs."""

KNOWN_PILOTS = 10_000
"""Most cached pilots, those last read or changed."""


@dataclass(frozen=True, slots=True)
class Known:
    """The task queues of a queue, at an activation there and a version of the federation.

    Its pilots take jobs of the queues ``served``: of its pseudo-queues if it is a unified one (B2).
    """

    number: int
    version: int
    federation: Federation
    queue: Queue | None
    columns: TaskQueueColumns
    served: tuple[str, ...]


class Matching:
    """Gives jobs to pilots from cached task queues. The store refuses claims that are out of date.

    Safe to use from many threads. A task queue is never longer than cached, because the store reports
    activations. If it is shorter, its claim is lower than the one it was drawn with. It then keeps its turn
    with the ratio of both claims; otherwise all are drawn again. So each is drawn exactly in proportion to
    its actual priority (P13), however old the cache is. Shares of owners with several task queues use the
    cache: if another server has just emptied one, it counts for its owner until it is drawn.
    """

    def __init__(
        self,
        store: Store,
        borrowing: BorrowableJobs | None = None,
        unreadable: UnreadableOwners = lambda _: (),
    ) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, Known] = {}
        self._pilots: OrderedDict[int, Pilot] = OrderedDict()
        self._admissions = Admissions(store, unreadable)
        self._shares = ShareCache(store)
        self._borrowing = borrowing or BorrowableJobs(store)
        self._begin = store.matches_begin()

    def match(self, request: MatchRequest, time: float, seed: int) -> Matched:
        """Give a pilot the jobs with the highest claims, then jobs of other queues for its free resources
        (E2).

        A pilot of a unified queue gets what one of its pseudo-queues would give it (B2). Raises
        ``PilotGone``, ``PilotRefused``.
        """
        served = self._task_queues(request.queue).served
        if served == (request.queue,):
            return self._match(request, time, seed)
        for name in self._in_turn(served, request, time, seed):
            result = self._match(replace(request, queue=name), time, seed)
            if result.jobs:
                break
        return result

    def _in_turn(self, served: Sequence[str], request: MatchRequest, time: float, seed: int) -> list[str]:
        pilot = self.pilot(request.pilot, time, seed)
        by_queue = {name: self._task_queues(name) for name in served}
        first = by_queue[served[0]]
        self._shares.refresh(first.federation, first.version, time)
        with self._lock, self._shares.turns() as turns:
            columns_of = {name: waiting.columns for name, waiting in by_queue.items()}
            return in_turn(columns_of, request, pilot, seed, turns)

    def _match(self, request: MatchRequest, time: float, seed: int) -> Matched:
        pilot, waiting = self._looked_up(request, time, seed)
        if time < self._begin:
            return matched(waiting.federation, waiting.queue, ())
        parts: list[ClaimResult] = []
        repeats: list[Draw] = []
        for number in range(TRIES):
            admission = self._admissions.admission(pilot, time)
            rest = request.less(_requirements(parts))
            claim = self._claim(waiting, rest, pilot, admission, repeats, time, seed + number)
            if not claim.heads and (borrowed := self._borrowed(waiting, pilot, rest, time, seed)):
                # With this, the store checked that its own queue got no new jobs.
                parts += borrowed
                if borrowed[-1].good:
                    return matched(waiting.federation, waiting.queue, parts)
                pilot, waiting = self._looked_up(request, time, seed, True, True)
                continue
            result = self._committed(waiting, pilot, claim, time, seed)
            parts.append(result)
            missing = _missing(claim, result)
            self._shares.take_back(missing)
            if result.good and not missing and not repeats:
                break
            stale = not result.good
            pilot, waiting = self._looked_up(request, time, seed, stale, stale or bool(missing))
            repeats = _keeping_their_turn(waiting.columns, missing if result.good else (), seed + number)
        if claim.heads:
            parts += self._borrowed(waiting, pilot, request.less(_requirements(parts)), time, seed)
        return _with_unfit(waiting, parts, request, pilot)

    def _claim(
        self,
        waiting: Known,
        request: MatchRequest,
        pilot: Pilot,
        admission: Admission,
        repeats: Sequence[Draw],
        time: float,
        seed: int,
    ) -> ClaimRequest:
        """Return a pilot's claim on its own queue: draws that keep their turn (``repeats``), or new ones."""
        if repeats:
            return matcher.claimed(pilot, repeats, admission)
        self._shares.refresh(waiting.federation, waiting.version, time)
        with self._lock, self._shares.turns() as turns:
            return matcher.claim(waiting.columns, request, pilot, seed, admission, turns)

    def _borrowed(
        self, waiting: Known, pilot: Pilot, rest: MatchRequest, time: float, seed: int
    ) -> list[ClaimResult]:
        """Give a pilot jobs of other queues for its free resources, with replacements for jobs that are gone.

        The last result has ``good`` if its basis is still valid. Raises ``PilotGone``.
        """
        results: list[ClaimResult] = []
        queue = waiting.queue
        while queue and is_open(queue) and len(results) < TRIES and (not results or results[-1].good):
            room = rest.less(_requirements(results))
            if room.max_jobs < 1 or room.cores < 1:
                break
            pilot = self._pilots.get(pilot.id, pilot)
            admission = self._admissions.admission(pilot, time)
            borrow = self._borrowing.request(queue, waiting.version, room, pilot, admission, seed, time)
            if not borrow:
                break
            results.append(self._committed(waiting, pilot, borrow, time, seed))
        return results

    def _committed(
        self, waiting: Known, pilot: Pilot, claim: ClaimRequest | BorrowRequest, time: float, seed: int
    ) -> ClaimResult:
        """Commit a pilot's request, and note the jobs that it got. Raises ``PilotGone``."""
        decision = Decision(step=MATCH, time=time, seed=seed, changes=(claim,))
        basis = Basis(waiting.number, waiting.version, pilot.matched > 0)
        (result,) = self._admissions.probed(
            pilot, _requirements_of(claim), time, lambda: self._store.matches.commit(decision, (basis,))
        )
        if isinstance(claim, BorrowRequest):
            self._borrowing.note(claim, result)
            self._shares.note(result.jobs)
        else:
            with self._lock:
                for draw, jobs in Counter(map(_drawn, result.jobs)).items():
                    waiting.columns.remove(draw, jobs)
        if not result.alive:
            self._pilots.pop(pilot.id, None)
            raise PilotGone(pilot.id)
        if result.jobs and not pilot.matched:  # the exact number does not matter
            self._remember(replace(pilot, matched=len(result.jobs)))
        return result

    def match_all(self, requests: Sequence[MatchRequest], time: float, seed: int) -> list[Matched | None]:
        """Give jobs to several pilots in one commit. Return the jobs of each; None for one that is gone.

        ``pilots`` must have found the pilots. Raises ``PilotRefused``.
        """
        self._let_go_of_changed()
        self._read_ahead({request.queue for request in requests})
        orders = [self._order(request, time, seed) for request in requests]
        claims = tuple([order.claim for order in orders])
        decision = Decision(step=MATCH, time=time, seed=seed, changes=claims)
        results = self._store.matches.commit(decision, [order.basis for order in orders]) if orders else []
        matches: list[Matched | None] = []
        for request, order, result in zip(requests, orders, results, strict=True):
            self._admissions.settle(order.probes, result.jobs)
            if result.jobs and not order.pilot.matched:
                self._remember(replace(order.pilot, matched=len(result.jobs)))
            if len(result.jobs) < sum(head.jobs for head in order.claim.heads):
                self._known.pop(request.queue, None)
            is_served = result.good and (result.jobs or not order.claim.heads)
            matches.append(self._completed(request, order, result if is_served else None, time, seed))
        return matches

    def pilots(self, ids: Sequence[int], time: float, seed: int) -> dict[int, Pilot]:
        """Return calling pilots by number, which run from now on, without ended ones."""
        unknown = [id_ for id_ in ids if id_ not in self._pilots]
        read = [pilot for pilot in self._store.matches.pilots(unknown) if pilot.state in LIVE_PILOTS]
        if calling := [pilot for pilot in read if pilot.state is not PilotState.RUNNING]:
            self._store.commit(calls(time, seed, *calling), "pilots")
        remembered = {id_: self._pilots[id_] for id_ in ids if id_ in self._pilots}
        for pilot in read:
            self._remember(pilot)
        return remembered | {pilot.id: pilot for pilot in read}

    def _let_go_of_changed(self) -> None:
        """Forget task queues of queues where jobs were activated since they were read."""
        version, numbers = self._store.matches.numbers()
        with self._lock:
            for queue, waiting in list(self._known.items()):
                if (waiting.number, waiting.version) != (numbers.get(queue, 0), version):
                    del self._known[queue]

    def _order(self, request: MatchRequest, time: float, seed: int) -> "_Asked":
        """Draw for one of several pilots from the jobs that earlier ones leave. Add the possible probes."""
        pilot, waiting = self._looked_up(request, time, seed)
        admission = self._admissions.admission(pilot, time)
        claim = self._claim(waiting, request, pilot, admission, (), time, seed)
        with self._lock:
            for head in claim.heads:
                waiting.columns.remove(Draw(head.requirements, head.priority), head.jobs)
        basis = Basis(waiting.number, waiting.version, pilot.matched > 0)
        probes = self._admissions.begin(pilot, _requirements_of(claim), time)
        return _Asked(pilot, waiting, claim, basis, probes)

    def _completed(
        self, request: MatchRequest, order: "_Asked", result: ClaimResult | None, time: float, seed: int
    ) -> Matched | None:
        """Return what one of several pilots got, with jobs of other queues for its free resources.

        It is matched separately if its drawn jobs were gone, or at a unified queue. Return None if the pilot
        is gone.
        """
        try:
            if result is None or order.waiting.served != (request.queue,):
                return self.match(request, time, seed)
            if len(result.jobs) == request.max_jobs:
                return matched(order.waiting.federation, order.waiting.queue, [result])
            rest = request.less(_requirements([result]))
            parts = [result, *self._borrowed(order.waiting, order.pilot, rest, time, seed)]
            return _with_unfit(order.waiting, parts, request, order.pilot)
        except PilotGone:
            return None

    def _looked_up(
        self,
        request: MatchRequest,
        time: float,
        seed: int,
        pilot_anew: bool = False,
        task_queues_anew: bool = False,
    ) -> tuple[Pilot, Known]:
        """Return the pilot with its own description, and the task queues of its queue."""
        pilot = self.pilot(request.pilot, time, seed, pilot_anew)
        if pilot.queue != request.queue:
            pilot = replace(pilot, queue=request.queue)
        waiting = self._task_queues(request.queue, task_queues_anew)
        return self._described(pilot, waiting.queue, request, time, seed), waiting

    def _described(
        self, pilot: Pilot, queue: Queue | None, request: MatchRequest, time: float, seed: int
    ) -> Pilot:
        """Return the pilot with its reported node and containment, which the store saves at the match.

        Raises ``PilotRefused`` if its containment is insufficient.
        """
        reason = containments.refusal(queue, request.containment)
        if reason:
            self._pilots.pop(pilot.id, None)
            refused = self._store.queries.pilot(pilot.id) or pilot
            decision = containments.refuse(refused, reason, request.containment, time, seed)
            self._store.commit(decision, f"pilot:{pilot.id}")
            raise PilotRefused(reason)
        described = containments.described(pilot, queue, request)
        if described is not pilot:
            self._remember(described)
        return described

    def _task_queues(self, queue: str, anew: bool = False) -> Known:
        waiting = None if anew else self._known.get(queue)
        if waiting is None:
            waiting = self._keep(queue, self._store.matches.standing(queue), self._store.federation())
        return waiting

    def _read_ahead(self, queues: Iterable[str]) -> None:
        """Read the missing task queues of these queues in one query."""
        if missing := [queue for queue in queues if queue not in self._known]:
            federation = self._store.federation()
            for queue, standing in self._store.matches.standings(missing).items():
                self._keep(queue, standing, federation)

    def _keep(self, queue: str, standing: Standing, federation: Federation) -> Known:
        declared = next((candidate for candidate in federation.queues if candidate.name == queue), None)
        levels = [Level(*level) for level in standing.levels] if declared else []
        queue_columns = columns(declared, levels)
        served = queues_served(federation, queue)
        waiting = Known(standing.number, standing.version, federation, declared, queue_columns, served)
        with self._lock:
            self._known[queue] = waiting
        return waiting

    def pilot(self, pilot: int, time: float, seed: int, anew: bool = False) -> Pilot:
        """Return a calling pilot, which runs from now on. Raises ``PilotGone``."""
        record = None if anew else self._pilots.get(pilot)
        if record is None:
            record = self._store.queries.pilot(pilot)
            if record is None or record.state not in LIVE_PILOTS:
                raise PilotGone(pilot)
            if record.state is not PilotState.RUNNING:
                self._store.commit(calls(time, seed, record), f"pilot:{pilot}")
            self._remember(record)
        return record

    def _remember(self, pilot: Pilot) -> None:
        with self._lock:
            former = self._pilots.get(pilot.id, pilot)
            if former.queue != pilot.queue:  # it asked for jobs of a pseudo-queue
                pilot = replace(pilot, queue=former.queue)
            self._pilots[pilot.id] = pilot
            self._pilots.move_to_end(pilot.id)
            while len(self._pilots) > KNOWN_PILOTS:
                self._pilots.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request of one of several pilots, and the possible probes in it (F2)."""

    pilot: Pilot
    waiting: Known
    claim: ClaimRequest
    basis: Basis
    probes: Sequence[ProbeKey]


def _requirements_of(request: ClaimRequest | BorrowRequest) -> set[str]:
    """Return the requirements of jobs that a pilot may get."""
    parts = request.heads if isinstance(request, ClaimRequest) else request.jobs
    return {part.requirements for part in parts}


def _with_unfit(waiting: Known, parts: Sequence[ClaimResult], request: MatchRequest, pilot: Pilot) -> Matched:
    """Return what a pilot got; if nothing, with the number of jobs that it could never run."""
    result = matched(waiting.federation, waiting.queue, parts)
    if result.jobs or not waiting.columns.names:
        return result
    return replace(result, unfit_jobs=unfit_jobs(waiting.columns, request, pilot))


def _drawn(job: Job) -> Draw:
    return Draw(job.requirements, job.priority)


def _missing(claim: ClaimRequest, result: ClaimResult) -> list[Draw]:
    """Return the draws that found no job. The store never gives more than was drawn."""
    if sum([head.jobs for head in claim.heads]) == len(result.jobs):
        return []
    drawn = Counter({Draw(head.requirements, head.priority): head.jobs for head in claim.heads})
    return list((drawn - Counter(map(_drawn, result.jobs))).elements())


def _keeping_their_turn(columns: TaskQueueColumns, missing: Sequence[Draw], seed: int) -> list[Draw]:
    """Redraw task queues that turned out to have a lower claim, with the ratio of both claims."""
    if not missing:
        return []
    chances = np.random.default_rng([seed, len(missing)]).random(len(missing))
    heads = ((draw, columns.head(draw.requirements)) for draw in missing)
    return [
        Draw(draw.requirements, head)
        for chance, (draw, head) in zip(chances, heads, strict=True)
        if head and chance * max(1, draw.priority) < max(1, head)
    ]


def _requirements(parts: Sequence[ClaimResult]) -> list[str]:
    """Return the requirements of the given jobs."""
    return [job.requirements for part in parts for job in part.jobs]
