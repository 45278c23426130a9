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
    """Gives jobs to pilots from cached task queues. The store refuses what no longer holds.

    Safe to use from many threads. A task queue is never longer than cached, because the store reports
    activations. If it is shorter, its claim is lower than the one it was drawn with. It then keeps its turn
    with the ratio of both claims; otherwise all are drawn again. So each is drawn exactly in proportion to
    its actual priority (P13), however old the cache is. Shares of owners with several task queues use the
    cache: one that another server emptied just now counts for its owner until it is drawn.
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
            found = self._match(replace(request, queue=name), time, seed)
            if found.jobs:
                break
        return found

    def _in_turn(self, served: Sequence[str], request: MatchRequest, time: float, seed: int) -> list[str]:
        pilot = self.pilot(request.pilot, time, seed)
        known = {name: self._task_queues(name) for name in served}
        first = known[served[0]]
        self._shares.known(first.federation, first.version, time)
        with self._lock, self._shares.turns() as turns:
            return in_turn({name: one.columns for name, one in known.items()}, request, pilot, seed, turns)

    def _match(self, request: MatchRequest, time: float, seed: int) -> Matched:
        pilot, known = self._looked_up(request, time, seed)
        if time < self._begin:
            return matched(known.federation, known.queue, ())
        parts: list[ClaimResult] = []
        kept: list[Draw] = []
        for number in range(TRIES):
            admission = self._admissions.admission(pilot, time)
            left = request.less(_given(parts))
            asked = self._claim(known, left, pilot, admission, kept, time, seed + number)
            if not asked.heads and (borrowed := self._borrowed(known, pilot, left, time, seed)):
                # With this, the store checked that nothing of its own queue came meanwhile.
                parts += borrowed
                if borrowed[-1].good:
                    return matched(known.federation, known.queue, parts)
                pilot, known = self._looked_up(request, time, seed, True, True)
                continue
            result = self._committed(known, pilot, asked, time, seed)
            parts.append(result)
            missing = _missing(asked, result)
            self._shares.take_back(missing)
            if result.good and not missing and not kept:
                break
            stale = not result.good
            pilot, known = self._looked_up(request, time, seed, stale, stale or bool(missing))
            kept = _keeping_their_turn(known.columns, missing if result.good else (), seed + number)
        if asked.heads:
            parts += self._borrowed(known, pilot, request.less(_given(parts)), time, seed)
        return _with_beyond(known, parts, request, pilot)

    def _claim(
        self,
        known: Known,
        request: MatchRequest,
        pilot: Pilot,
        admission: Admission,
        kept: Sequence[Draw],
        time: float,
        seed: int,
    ) -> ClaimRequest:
        """What a pilot takes of its own queue: what ``kept`` its turn, else what is drawn."""
        if kept:
            return matcher.claimed(pilot, kept, admission)
        self._shares.known(known.federation, known.version, time)
        with self._lock, self._shares.turns() as turns:
            return matcher.claim(known.columns, request, pilot, seed, admission, turns)

    def _borrowed(
        self, known: Known, pilot: Pilot, left: MatchRequest, time: float, seed: int
    ) -> list[ClaimResult]:
        """Give a pilot jobs of other queues for its free resources, with replacements for those that are
        gone.

        The last result says whether its basis still holds. Raises ``PilotGone``.
        """
        found: list[ClaimResult] = []
        queue = known.queue
        while queue and is_open(queue) and len(found) < TRIES and (not found or found[-1].good):
            room = left.less(_given(found))
            if room.max_jobs < 1 or room.cores < 1:
                break
            pilot = self._pilots.get(pilot.id, pilot)
            admission = self._admissions.admission(pilot, time)
            asked = self._borrowing.request(queue, known.version, room, pilot, admission, seed, time)
            if not asked:
                break
            found.append(self._committed(known, pilot, asked, time, seed))
        return found

    def _committed(
        self, known: Known, pilot: Pilot, asked: ClaimRequest | BorrowRequest, time: float, seed: int
    ) -> ClaimResult:
        """Commit what a pilot asks for, and note what it was given. Raises ``PilotGone``."""
        decision = Decision(step=MATCH, time=time, seed=seed, changes=(asked,))
        basis = Basis(known.number, known.version, pilot.matched > 0)
        (result,) = self._admissions.probed(
            pilot, _wanted(asked), time, lambda: self._store.matches.commit(decision, (basis,))
        )
        if isinstance(asked, BorrowRequest):
            self._borrowing.note(asked, result)
            self._shares.note(result.jobs)
        else:
            with self._lock:
                for draw, jobs in Counter(map(_drawn, result.jobs)).items():
                    known.columns.remove(draw, jobs)
        if not result.alive:
            self._pilots.pop(pilot.id, None)
            raise PilotGone(pilot.id)
        if result.jobs and not pilot.matched:  # only whether it had any matters
            self._remember(replace(pilot, matched=len(result.jobs)))
        return result

    def match_all(self, requests: Sequence[MatchRequest], time: float, seed: int) -> list[Matched | None]:
        """Give jobs to several pilots in one commit. Return each one's jobs in order; None for one that is
        gone.

        ``pilots`` must have found the pilots. Raises ``PilotRefused``.
        """
        self._let_go_of_changed()
        self._read_ahead({request.queue for request in requests})
        asked = [self._asked(request, time, seed) for request in requests]
        decision = Decision(step=MATCH, time=time, seed=seed, changes=tuple([one.claim for one in asked]))
        results = self._store.matches.commit(decision, [one.basis for one in asked]) if asked else []
        found: list[Matched | None] = []
        for request, one, result in zip(requests, asked, results, strict=True):
            self._admissions.settle(one.probes, result.jobs)
            if result.jobs and not one.pilot.matched:
                self._remember(replace(one.pilot, matched=len(result.jobs)))
            if len(result.jobs) < sum(head.jobs for head in one.claim.heads):
                self._known.pop(request.queue, None)
            is_served = result.good and (result.jobs or not one.claim.heads)
            found.append(self._completed(request, one, result if is_served else None, time, seed))
        return found

    def pilots(self, ids: Sequence[int], time: float, seed: int) -> dict[int, Pilot]:
        """Return calling pilots by number, which run from now on, without ended ones."""
        unknown = [id_ for id_ in ids if id_ not in self._pilots]
        found = [one for one in self._store.matches.pilots(unknown) if one.state in LIVE_PILOTS]
        if calling := [one for one in found if one.state is not PilotState.RUNNING]:
            self._store.commit(calls(time, seed, *calling), "pilots")
        known = {id_: self._pilots[id_] for id_ in ids if id_ in self._pilots}
        for pilot in found:
            self._remember(pilot)
        return known | {pilot.id: pilot for pilot in found}

    def _let_go_of_changed(self) -> None:
        """Forget task queues of queues where jobs were activated since they were read."""
        version, numbers = self._store.matches.numbers()
        with self._lock:
            for queue, known in list(self._known.items()):
                if (known.number, known.version) != (numbers.get(queue, 0), version):
                    del self._known[queue]

    def _asked(self, request: MatchRequest, time: float, seed: int) -> "_Asked":
        """Draw for one of several pilots, of what those before it leave; add the probes that these are."""
        pilot, known = self._looked_up(request, time, seed)
        admission = self._admissions.admission(pilot, time)
        asked = self._claim(known, request, pilot, admission, (), time, seed)
        with self._lock:
            for head in asked.heads:
                known.columns.remove(Draw(head.requirements, head.priority), head.jobs)
        basis = Basis(known.number, known.version, pilot.matched > 0)
        return _Asked(pilot, known, asked, basis, self._admissions.begin(pilot, _wanted(asked), time))

    def _completed(
        self, request: MatchRequest, asked: "_Asked", result: ClaimResult | None, time: float, seed: int
    ) -> Matched | None:
        """Return what one of several pilots got, with jobs of other queues for its free resources.

        It is matched separately if its drawn jobs were gone, or at a unified queue. Return None if the pilot
        is gone.
        """
        try:
            if result is None or asked.known.served != (request.queue,):
                return self.match(request, time, seed)
            if len(result.jobs) == request.max_jobs:
                return matched(asked.known.federation, asked.known.queue, [result])
            left = request.less(_given([result]))
            parts = [result, *self._borrowed(asked.known, asked.pilot, left, time, seed)]
            return _with_beyond(asked.known, parts, request, asked.pilot)
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
        known = self._task_queues(request.queue, task_queues_anew)
        return self._described(pilot, known.queue, request, time, seed), known

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
        told = containments.described(pilot, queue, request)
        if told is not pilot:
            self._remember(told)
        return told

    def _task_queues(self, queue: str, anew: bool = False) -> Known:
        known = None if anew else self._known.get(queue)
        if known is None:
            known = self._keep(queue, self._store.matches.standing(queue), self._store.federation())
        return known

    def _read_ahead(self, queues: Iterable[str]) -> None:
        """Read the missing task queues of these queues, all at once."""
        if missing := [queue for queue in queues if queue not in self._known]:
            federation = self._store.federation()
            for queue, standing in self._store.matches.standings(missing).items():
                self._keep(queue, standing, federation)

    def _keep(self, queue: str, standing: Standing, federation: Federation) -> Known:
        declared = next((one for one in federation.queues if one.name == queue), None)
        levels = [Level(*level) for level in standing.levels] if declared else []
        made = columns(declared, levels)
        served = queues_served(federation, queue)
        known = Known(standing.number, standing.version, federation, declared, made, served)
        with self._lock:
            self._known[queue] = known
        return known

    def pilot(self, pilot: int, time: float, seed: int, anew: bool = False) -> Pilot:
        """Return a calling pilot, which runs from now on. Raises ``PilotGone``."""
        found = None if anew else self._pilots.get(pilot)
        if found is None:
            found = self._store.queries.pilot(pilot)
            if found is None or found.state not in LIVE_PILOTS:
                raise PilotGone(pilot)
            if found.state is not PilotState.RUNNING:
                self._store.commit(calls(time, seed, found), f"pilot:{pilot}")
            self._remember(found)
        return found

    def _remember(self, pilot: Pilot) -> None:
        with self._lock:
            known = self._pilots.get(pilot.id, pilot)
            if known.queue != pilot.queue:  # it asked for jobs of a pseudo-queue
                pilot = replace(pilot, queue=known.queue)
            self._pilots[pilot.id] = pilot
            self._pilots.move_to_end(pilot.id)
            while len(self._pilots) > KNOWN_PILOTS:
                self._pilots.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one of several pilots asks for, and the probes that this may be (F2)."""

    pilot: Pilot
    known: Known
    claim: ClaimRequest
    basis: Basis
    probes: Sequence[ProbeKey]


def _wanted(asked: ClaimRequest | BorrowRequest) -> set[str]:
    """The requirements of jobs that a pilot may be given."""
    return {one.requirements for one in (asked.heads if isinstance(asked, ClaimRequest) else asked.jobs)}


def _with_beyond(known: Known, parts: Sequence[ClaimResult], request: MatchRequest, pilot: Pilot) -> Matched:
    """Return what a pilot got; if nothing, with the number of jobs that it could never run."""
    found = matched(known.federation, known.queue, parts)
    if found.jobs or not known.columns.names:
        return found
    return replace(found, beyond=unfit_jobs(known.columns, request, pilot))


def _drawn(job: Job) -> Draw:
    return Draw(job.requirements, job.priority)


def _missing(asked: ClaimRequest, result: ClaimResult) -> list[Draw]:
    """Return the draws whose job was gone. The store never gives more than was drawn."""
    if sum([head.jobs for head in asked.heads]) == len(result.jobs):
        return []
    drawn = Counter({Draw(head.requirements, head.priority): head.jobs for head in asked.heads})
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


def _given(parts: Sequence[ClaimResult]) -> list[str]:
    """The requirements of jobs that were given."""
    return [job.requirements for part in parts for job in part.jobs]
