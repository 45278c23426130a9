"""Jobs of other queues for the pilots of one process: what might be taken is remembered for some seconds."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from pilotage.model.documents.decision import Claim
from pilotage.model.documents.world import MatchRequest, World
from pilotage.model.records.federation import Queue
from pilotage.model.records.work import Job, Pilot
from pilotage.model.values.freshness import KNOWN_FOR, is_fresh
from pilotage.pilots import borrowing as policy
from pilotage.pilots.borrowing import BorrowableJob
from pilotage.pilots.readers import Readers
from pilotage.pilots.tries import Admission
from pilotage.store import Pass, Store
from pilotage.store.matching.borrowed_matches import Basis, BorrowRequest, OfferedJob
from pilotage.store.matching.match_requests import ClaimResult
from pilotage.store.worlds.borrowings import for_queue

NOTHING_FOR = 1.0
"""Seconds until the next look after one that found nothing to take, and for which the newest choices hold.

They double with each such look: a line that forms is soon worth borrowing from, one that stays as it is
costs a look each time. Up to ``KNOWN_FOR`` where new choices name the queue, else up to :data:`LOOKS`.
"""

LOOKS = 5
"""Looks a second in vain, of all queues together, while no new choice names them: each costs some ms."""

MISSES = 3
"""Requests in a row that found nothing any more, after which offers are read anew."""

WIDER = 8
"""Times as many spares in each request after such a one: others may be hundreds of jobs ahead."""


@dataclass(slots=True)
class _KnownJobs:
    """The offers to a queue's pilots by job, in their order, as of a version of the federation.

    Offers that are all taken are read again at once. Others hold for ``lasts`` s. They hold for
    ``KNOWN_FOR`` at most once a choice after the ``newest`` names the queue, for ``NOTHING_FOR`` where
    nothing waited before. ``were_any`` tells whether there were some at first. Jobs of queues not ``near``
    claim places at the site. ``misses`` are requests in a row that found nothing any more, ``readers`` those
    chosen since.
    """

    version: int
    newest: int
    time: float
    offers: dict[int, BorrowableJob]
    claims: tuple[Claim, ...]
    near: Collection[str]
    were_any: bool
    lasts: float
    any_waited: bool
    misses: int = 0
    readers: Readers = field(default_factory=Readers)
    _told: dict[int, OfferedJob] = field(default_factory=dict)

    def holds(self, version: int, newest: int, time: float) -> bool:
        """Tell whether nothing need be read anew."""
        lasts = self.lasts
        if newest != self.newest:
            lasts = min(lasts, KNOWN_FOR if self.any_waited else NOTHING_FOR)
        fresh = is_fresh(self.time, time, lasts)
        return fresh and version == self.version and bool(self.offers or not self.were_any)

    def leave(self, numbers: Iterable[int]) -> None:
        """Offer jobs no more."""
        for number in numbers:
            self.offers.pop(number, None)
            self._told.pop(number, None)

    def choice(
        self, request: MatchRequest, pilot: Pilot, queue: Queue, admission: Admission
    ) -> tuple[list[BorrowableJob], list[BorrowableJob]]:
        """Choose offers for a pilot; returns them, and the same with spares for those that are gone."""
        offers, readers = self.offers.values(), self.readers
        # What does not fit the limits of the site is found out job by job.
        asked = replace(request, max_jobs=min(1, request.max_jobs)) if self.claims else request
        taken = policy.chosen(offers, asked, pilot, queue, admission, readers)
        most = policy.SPARES * WIDER**self.misses
        return taken, [*taken, *policy.spares(offers, taken, request, pilot, queue, admission, readers, most)]

    def count_spares(self, given: Iterable[Job]) -> None:
        """Count the jobs that were given in place of chosen ones among the readers, as these were."""
        for job in given:
            if (offer := self.offers.get(job.id)) and offer.reads:
                self.readers.add(offer.rates)

    def told(self, offer: BorrowableJob, queue: Queue) -> OfferedJob:
        """An offer as the store is told of it, the same for all requests."""
        number = offer.job.id
        if number not in self._told:
            borrowing = partial(policy.record, offer, queue, self.time)
            self._told[number] = OfferedJob(offer.job, offer.binding, borrowing)
        return self._told[number]


class BorrowableJobs:
    """Jobs of other queues that pilots may take (E1 to E3), each chosen for one pilot.

    Safe to use from many threads. Spares may be told to several. The store refuses what does not wait any
    more where it was seen, which another server's pilots may have taken: then the next choice is offered.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, _KnownJobs] = {}
        self._newest: Mapping[str, int] = {}
        self._newest_at = -inf

    def wanted(
        self,
        queue: Queue,
        basis: Basis,
        request: MatchRequest,
        pilot: Pilot,
        admission: Admission,
        time: float,
        seed: int,
    ) -> BorrowRequest | None:
        """The jobs that a pilot takes of other queues, which nobody else here has chosen; None for none."""
        newest = self._newest_choices(time).get(queue.name)
        if newest is None:
            return None
        with self._lock:
            known = self._known.get(queue.name)
        if known is None or not known.holds(basis.version, newest, time):
            known = self._read(basis.version, newest, queue, time, seed)
        with self._lock:
            known = self._known.get(queue.name, known)
            if not known.offers:
                return None
            taken, asked = known.choice(request, pilot, queue, admission)
            told = tuple(known.told(offer, queue) for offer in asked)
            known.leave(offer.job.id for offer in taken)
        if not taken:
            return None
        return BorrowRequest(
            pilot=pilot.id,
            queue=queue.name,
            site=queue.site,
            basis=basis,
            jobs=told,
            most=len(taken),
            claims=known.claims if any(one.job.queue not in known.near for one in told) else (),
            containment=pilot.containment,
            node=pilot.node,
            time=time,
        )

    def note(self, wanted: BorrowRequest, given: ClaimResult) -> None:
        """Note what a pilot was given: what stands before the last of it, and it was not given, is gone.

        Where it was given less than it could take, all of them are. Where it was given none, a claim, or what
        it rests on, may hold no more, and all is read anew.
        """
        numbers = [one.job.id for one in wanted.jobs]
        # One that got fewer than it could have was refused all the others.
        is_short = len(given.jobs) < wanted.most
        last = len(numbers) if is_short else max(numbers.index(job.id) for job in given.jobs)
        with self._lock:
            if known := self._known.get(wanted.queue):
                known.count_spares(given.jobs)
                known.leave(numbers[: last + 1])
                known.misses = 0 if given.jobs else known.misses + 1
                unsure = not given.jobs and (wanted.claims or not given.good)
                if unsure or known.misses >= MISSES:
                    self._known.pop(wanted.queue)

    def _newest_choices(self, time: float) -> Mapping[str, int]:
        """The newest choice by queue that names it: asked once for all queues whose pilots might borrow."""
        if not is_fresh(self._newest_at, time, NOTHING_FOR):
            self._newest, self._newest_at = self._store.snapshots.newest_choices(), time
        return self._newest

    def _read(self, version: int, newest: int, queue: Queue, time: float, seed: int) -> _KnownJobs:
        world = self._store.snapshots.read(Pass(time, seed, 0), [for_queue(queue.name)])
        found = {offer.job.id: offer for offer in self._open(world, queue)}
        claims, near = policy.claims(world, queue)
        with self._lock:
            # Another thread that looked meanwhile may have chosen of these: it is one look, told once.
            other = self._known.get(queue.name)
            if other is not None and other.holds(version, newest, max(time, other.time)):
                return other
            lasts, waits = KNOWN_FOR if found else self._next_look(queue.name, world), bool(world.jobs)
            known = _KnownJobs(version, newest, time, found, claims, near, bool(found), lasts, waits)
            self._known[queue.name] = known
        return known

    def _next_look(self, queue: str, world: World) -> float:
        """Seconds after a look that found nothing to take until the next."""
        before, longest = self._known.get(queue), max(KNOWN_FOR, len(self._newest) / LOOKS)
        # Candidates stand for a while after their last job has left; more come with new choices alone.
        if not world.jobs:
            return longest
        if before is None or before.were_any or not before.any_waited:
            return NOTHING_FOR
        return min(2 * before.lasts, longest)

    def _open(self, world: World, queue: Queue) -> Iterator[BorrowableJob]:
        """The jobs of a world that the pilots of a queue take, in their order."""
        return (offer for offer in policy.offers(world, queue.name) if offer.is_open)
