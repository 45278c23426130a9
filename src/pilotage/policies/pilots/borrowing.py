"""Jobs waiting at other queues that a pilot with a free slot would end sooner (E1 to E3)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from pilotage.model.documents.world import World
from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.counters import Claim
from pilotage.model.records.federation import Queue
from pilotage.model.records.matching import BorrowableAttempt, BorrowRequest, MatchRequest
from pilotage.model.records.spec import Binding
from pilotage.model.records.states import UNSTARTED_JOBS
from pilotage.model.records.work import Job, Pilot, Requirements
from pilotage.model.rules import global_shares, site_limits
from pilotage.model.rules.site_limits import (
    ANY_NUMBER,
    NO_BOUNDS,
    NOBODY,
    Bounds,
    all_bounds,
    jobs_there,
    queues_by_site,
)
from pilotage.policies.pilots.fitting import Needs, PilotResources, fits, needs, offered
from pilotage.policies.pilots.predictions import Prediction, Predictions
from pilotage.policies.pilots.probes import Admission
from pilotage.policies.pilots.task_queues import is_open


@dataclass(slots=True)
class Readers:
    """MB/s that the jobs chosen in this pass read, by source site.

    ``free_rates`` have been reduced by earlier readers at the taking site already.
    """

    _chosen: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def leave_room(self, reads: Mapping[str, float], free_rates: Mapping[str, float], run: float) -> bool:
        """Return whether these MB by site can be read within a run of ``run`` s, given the free MB/s by
        site."""
        return sum(self._seconds(site, size, free_rates) for site, size in reads.items()) <= run

    def add(self, rates: Mapping[str, float]) -> None:
        """Count one more job, which reads this many MB/s by site."""
        for site, rate in rates.items():
            self._chosen[site] += rate

    def copy(self) -> "Readers":
        """Return a copy for jobs that may be chosen later."""
        return Readers(self._chosen.copy())

    def _seconds(self, site: str, megabytes: float, free_rates: Mapping[str, float]) -> float:
        free = free_rates[site] - self._chosen[site]
        return megabytes / free if free > 0 else inf


_NOTHING: Mapping[str, float] = {}

SPARES = 6
"""Spare jobs in a request: they replace chosen jobs that another server has just given away."""


# A tuple, like predictions.
class BorrowableJob(NamedTuple):
    """A job that waits at another queue, with the reasons for and against taking it.

    Pilots borrow it for a gain above ``needed`` s, unless an ``obstacle`` keeps it where it is. ``turn`` is
    the rank of its global share. ``reads`` are the MB that it reads, by source site; ``free_rates`` the free
    MB/s on the links from there.
    """

    job: Job
    binding: Binding
    requirements: Requirements
    needs: Needs
    turn: int
    prediction: Prediction
    needed: float
    reads: Mapping[str, float]
    free_rates: Mapping[str, float]
    obstacle: str

    @property
    def is_open(self) -> bool:
        """Return whether a pilot takes it: for its gain, or because it is not bound to a queue."""
        return not self.obstacle and (self.binding == "late" or self.prediction.gain > self.needed)

    @property
    def rates(self) -> dict[str, float]:
        """Return the MB/s that it reads remotely by site, averaged over its run."""
        run = max(self.prediction.here, 1.0)
        return {site: megabytes / run for site, megabytes in self.reads.items()}

    @property
    def order(self) -> tuple[bool, int, float, float, int]:
        """Return a sort key: borrowed jobs before unbound ones, by share, then by gain or by waiting time."""
        if self.binding == "late":
            return True, self.turn, self.job.since, self.job.created, self.job.id
        return False, self.turn, self.needed - self.prediction.gain, -self.job.created, -self.job.id


def offers(world: World, name: str) -> tuple[BorrowableJob, ...]:
    """Return the jobs of other queues that the pilots of a queue might take, in order.

    Begin at the end of each line, because the last job would wait longest.
    """
    queue = next((queue for queue in world.federation.queues if queue.name == name), None)
    if queue is None or not is_open(queue) or queue.forwards:
        return ()
    bindings = {
        candidacy.choice: candidacy.binding for candidacy in world.candidacies if candidacy.queue == name
    }
    waiting = [
        (job, bindings[job.choice])
        for job in world.jobs
        if job.choice in bindings and job.state in UNSTARTED_JOBS and job.queue != name
    ]
    if waiting and room(world, queue) <= 0:
        near = set(queues_by_site(world.federation)[queue.site])
        waiting = [(job, binding) for job, binding in waiting if job.queue in near]
    if not waiting:
        return ()
    predictions = Predictions(world, queue)
    turns = global_shares.order(world.federation.shares, world.job_counts)
    followers: Counter[tuple[str, str]] = Counter()
    jobs: list[BorrowableJob] = []
    for job, binding in sorted(waiting, key=lambda pair: (pair[0].priority, -pair[0].created, -pair[0].id)):
        jobs.append(_offer(predictions, job, binding, followers[job.queue, job.share], turns))
        followers[job.queue, job.share] += 1
    return tuple(sorted(jobs, key=lambda offer: offer.order))


def _offer(
    predictions: Predictions, job: Job, binding: Binding, followers: int, turns: Mapping[str, int]
) -> BorrowableJob:
    reads, requirements = predictions.reads(job), Requirements.from_text(job.requirements)
    prediction = predictions.of(job, followers, reads)
    return BorrowableJob(
        job=job,
        binding=binding,
        requirements=requirements,
        needs=needs(requirements, predictions.taker),
        turn=turns.get(job.share, len(turns)),
        prediction=prediction,
        needed=predictions.needed(prediction),
        reads=reads or _NOTHING,
        free_rates={site: predictions.free_rate(site) for site in reads} if reads else _NOTHING,
        obstacle=predictions.obstacle(job, prediction, reads),
    )


def chosen(
    offers: Iterable[BorrowableJob],
    request: MatchRequest,
    pilot: Pilot,
    admission: Admission,
    readers: Readers,
) -> list[BorrowableJob]:
    """Return the open offers that a pilot takes with its free resources, in order.

    Count them among the readers of this pass. Skip offers if readers would exceed a link's rate (E3).
    """
    has, max_jobs = offered(request, pilot), admission.limited(request).max_jobs
    cores, memory, gpus = request.cores, has.memory, request.gpus
    choices: list[BorrowableJob] = []
    for offer in offers:
        if len(choices) >= max_jobs or cores < 1:
            break
        requirements = offer.requirements
        roomy = requirements.cores <= cores and requirements.memory <= memory and requirements.gpus <= gpus
        if roomy and _is_for(offer, has, admission, readers):
            choices.append(offer)
            if offer.reads:
                readers.add(offer.rates)
            cores, memory, gpus = (
                cores - requirements.cores,
                memory - requirements.memory,
                gpus - requirements.gpus,
            )
    return choices


def spares(
    offers: Iterable[BorrowableJob],
    choices: Sequence[BorrowableJob],
    request: MatchRequest,
    pilot: Pilot,
    admission: Admission,
    readers: Readers,
    limit: int = SPARES,
) -> list[BorrowableJob]:
    """Return offers that could replace chosen ones, in case another server has taken those.

    Return at most ``limit``. Any fitting offer can replace a single job. It can replace one of several only
    if all jobs have the same requirements. Links must have room for all of them besides the chosen ones.
    """
    has, after = offered(request, pilot), readers.copy()
    numbers = {offer.job.id for offer in choices}
    requirements = {offer.requirements for offer in choices}
    replacements: list[BorrowableJob] = []
    if len(choices) == 1 or len(requirements) == 1:
        for offer in offers:
            replaces = len(choices) == 1 or offer.requirements in requirements
            if offer.job.id not in numbers and replaces and _is_for(offer, has, admission, after):
                replacements.append(offer)
                if offer.reads:
                    after.add(offer.rates)
            if len(replacements) == limit:
                break
    return replacements


def _is_for(offer: BorrowableJob, has: PilotResources, admission: Admission, readers: Readers) -> bool:
    """Return whether a pilot would take an offer that it has room for."""
    requirements = offer.requirements
    admitted = admission.takes(requirements.vo, requirements.owner, offer.job.task) and (
        not requirements.secrets or admission.gives_secrets(requirements.vo, requirements.owner)
    )
    if not admitted or not fits(offer.needs, has):
        return False
    return not offer.reads or readers.leave_room(offer.reads, offer.free_rates, offer.prediction.run_here)


@dataclass(slots=True)
class Look:
    """The offers to a queue's pilots as of one world, in their order, without offers taken since.

    A job claims a place at the site unless its queue is ``near``. ``readers`` count the jobs chosen since.
    """

    queue: Queue
    time: float
    offers: dict[int, BorrowableJob]
    claims: tuple[Claim, ...]
    near: Collection[str]
    readers: Readers = field(default_factory=Readers)
    _attempts: dict[int, BorrowableAttempt] = field(default_factory=dict)

    def request(
        self, request: MatchRequest, pilot: Pilot, admission: Admission, most_spares: int = SPARES
    ) -> BorrowRequest | None:
        """Request the offers that a pilot takes, and spares; None if it takes none.

        A requested offer is gone for all others; a spare can be requested again.
        """
        offers, readers = self.offers.values(), self.readers
        # If the site has limits, request one job at a time: the claim of each shows whether there is room.
        limited = replace(request, max_jobs=min(1, request.max_jobs)) if self.claims else request
        choices = chosen(offers, limited, pilot, admission, readers)
        if not choices:
            return None
        replacements = spares(offers, choices, request, pilot, admission, readers, most_spares)
        jobs = tuple([self._attempt(offer) for offer in (*choices, *replacements)])
        self.leave([offer.job.id for offer in choices])
        return BorrowRequest(
            pilot=pilot.id,
            queue=self.queue.name,
            site=self.queue.site,
            jobs=jobs,
            most=len(choices),
            claims=self.claims
            if any(attempt.borrowing.preferred not in self.near for attempt in jobs)
            else (),
            containment=pilot.containment,
            node=pilot.node,
        )

    def note(self, request: BorrowRequest, jobs: Sequence[int]) -> None:
        """Note which jobs a pilot got: jobs listed before the last of these that it did not get are gone.

        If it got fewer than it could take, all are gone. Count jobs that it got instead of chosen ones among
        the readers.
        """
        numbers = [attempt.borrowing.job for attempt in request.jobs]
        for number in jobs:
            if (offer := self.offers.get(number)) and offer.reads:
                self.readers.add(offer.rates)
        # If it got fewer than it could take, it was refused all others.
        last = len(numbers) if len(jobs) < request.most else max(map(numbers.index, jobs))
        self.leave(numbers[: last + 1])

    def leave(self, numbers: Iterable[int]) -> None:
        """Withdraw the offers of these jobs."""
        for number in numbers:
            self.offers.pop(number, None)
            self._attempts.pop(number, None)

    def keep_near(self) -> None:
        """Withdraw the offers that need a place at the site."""
        self.leave([number for number, offer in self.offers.items() if offer.job.queue not in self.near])

    def _attempt(self, offer: BorrowableJob) -> BorrowableAttempt:
        """Return an offer in the form for the store, made once for all requests."""
        job = offer.job
        if job.id not in self._attempts:
            self._attempts[job.id] = BorrowableAttempt(
                state=job.state,
                requirements=job.requirements,
                changes_read=job.changes,
                borrowing=record(offer, self.queue, self.time),
            )
        return self._attempts[job.id]


def look(world: World, queue: Queue, open_offers: Iterable[BorrowableJob] | None = None) -> Look:
    """Return a look at ``open_offers`` for a queue's pilots; by default at all open offers in a world."""
    if open_offers is None:
        open_offers = (offer for offer in offers(world, queue.name) if offer.is_open)
    claimed, near = claims(world, queue)
    return Look(queue, world.time, {offer.job.id: offer for offer in open_offers}, claimed, near)


def claims(world: World, queue: Queue) -> tuple[tuple[Claim, ...], Collection[str]]:
    """Return the claims of a place at a queue's site if it has limits, and the queues with jobs that need
    none.

    Jobs of the same site have a place already (M5, M8). A limit on submitted jobs does not apply, because
    these jobs go straight to a running pilot.
    """
    bounds, near = _bounds(world, queue), queues_by_site(world.federation).get(queue.site, ())
    if bounds.jobs is None or not near:
        return (), near
    advertisement = next((ad for ad in world.advertisements if ad.site == queue.site), None)
    return site_limits.claims(bounds, near, advertisement), near


def record(offer: BorrowableJob, queue: Queue, time: float) -> Borrowing:
    """Return the record of a job that a pilot of a queue takes at a time in s since 1970."""
    prediction = offer.prediction
    return Borrowing(
        job=offer.job.id,
        attempt=offer.job.attempt,
        time=time,
        preferred=offer.job.queue,
        queue=queue.name,
        site=queue.site,
        binding=offer.binding,
        ahead=prediction.ahead,
        staging=prediction.staging,
        ends_there=time + prediction.there,
        ends_here=time + prediction.here,
        nothing_for=prediction.nothing_for,
        reads=offer.rates,
    )


def room(world: World, queue: Queue) -> int:
    """Return how many more jobs of other sites a queue's site accepts (M5, M8)."""
    bounds = _bounds(world, queue)
    if bounds.jobs is None:
        return ANY_NUMBER
    return bounds.room(jobs_there(world.federation, world.job_counts).get(queue.site, NOBODY))


def _bounds(world: World, queue: Queue) -> Bounds:
    return Bounds(jobs=all_bounds(world).get(queue.site, NO_BOUNDS).jobs)
