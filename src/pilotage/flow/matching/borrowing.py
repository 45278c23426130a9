"""Jobs of other queues for one process's pilots. Offers are cached for some seconds."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from pilotage.flow.cache import Cache
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.matching import BorrowRequest, MatchRequest
from pilotage.model.records.work import Pilot
from pilotage.model.values.durations import KNOWN_FOR, is_fresh
from pilotage.policies.pilots import borrowing as policy
from pilotage.policies.pilots.borrowing import BorrowableJob, Look
from pilotage.policies.pilots.probes import Admission
from pilotage.store import Pass, Store
from pilotage.store.jobs.borrowings import for_queue
from pilotage.store.matching.match_requests import ClaimResult

NOTHING_FOR = 1.0
"""Seconds to the next search after one without offers, and for which the newest choices are cached. The
pause doubles with each such search, because searching an unchanged line is useless. It grows up to
``KNOWN_FOR`` if new choices name the queue, else until all queues make ``LOOKS`` searches per second."""

LOOKS = 5
"""Most fruitless searches per second, of all queues together, without a new choice that names them. Each
costs some ms."""

MISSES = 3
"""Requests in a row without a job, after which offers are read again."""

WIDER = 8
"""Factor on the spares of a request after each such miss: other servers may be hundreds of jobs ahead."""


@dataclass(slots=True)
class _KnownLook:
    """What a queue's pilots saw, as of a version of the federation.

    The next request reads offers again if none is left. Otherwise they are valid for ``lasts`` s. Once a
    choice after the ``newest`` names the queue, they are valid for at most ``KNOWN_FOR`` s, or
    ``NOTHING_FOR`` s if no job waited before. ``were_any``: there were offers at first. ``misses`` counts the
    last requests in a row without a job.
    """

    version: int
    newest: int
    look: Look
    were_any: bool
    lasts: float
    any_waited: bool
    misses: int = 0

    def holds(self, version: int, newest: int, time: float) -> bool:
        """Return whether nothing needs to be read again."""
        lasts = self.lasts
        if newest != self.newest:
            lasts = min(lasts, KNOWN_FOR if self.any_waited else NOTHING_FOR)
        fresh = is_fresh(self.look.time, time, lasts)
        return fresh and version == self.version and bool(self.look.offers or not self.were_any)


class BorrowableJobs:
    """Jobs of other queues that pilots may take (E1 to E3). Each is chosen for one pilot.

    Safe to use from many threads. Several pilots may get the same spares. The store refuses a job that has
    left its queue, because another server's pilot may have taken it. Then it tries the next choice.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, _KnownLook] = {}
        self._newest = Cache(lambda _: store.snapshots.newest_choices(), NOTHING_FOR)

    def request(
        self,
        queue: Queue,
        version: int,
        match_request: MatchRequest,
        pilot: Pilot,
        admission: Admission,
        seed: int,
        time: float,
    ) -> BorrowRequest | None:
        """Ask for jobs of other queues for a pilot, except jobs chosen here before; None without any."""
        newest = self._newest.at(time).get(queue.name)
        if newest is None:
            return None
        with self._lock:
            search = self._known.get(queue.name)
        if search is None or not search.holds(version, newest, time):
            search = self._read(version, newest, queue, time, seed)
        with self._lock:
            search = self._known.get(queue.name, search)
            return search.look.request(match_request, pilot, admission, policy.SPARES * WIDER**search.misses)

    def note(self, request: BorrowRequest, result: ClaimResult) -> None:
        """Note the jobs that a pilot got.

        If it got none, its claim or the reason for it may be out of date. Then the next request reads all
        again.
        """
        with self._lock:
            if search := self._known.get(request.queue):
                search.look.note(request, [job.id for job in result.jobs])
                search.misses = 0 if result.jobs else search.misses + 1
                unsure = not result.jobs and (request.claims or not result.good)
                if unsure or search.misses >= MISSES:
                    self._known.pop(request.queue)

    def _read(self, version: int, newest: int, queue: Queue, time: float, seed: int) -> _KnownLook:
        world = self._store.snapshots.read(Pass(time, seed, 0), [for_queue(queue.name)])
        look = policy.look(world, queue, self._open(world, queue))
        longest = max(KNOWN_FOR, len(self._newest.at(time)) / LOOKS)
        with self._lock:
            # Another thread may have searched too, and chosen some of these: use its result.
            newer = self._known.get(queue.name)
            if newer is not None and newer.holds(version, newest, max(time, newer.look.time)):
                return newer
            were_any, waits = bool(look.offers), bool(world.jobs)
            lasts = KNOWN_FOR if were_any else self._next_look(queue.name, world, longest)
            search = self._known[queue.name] = _KnownLook(version, newest, look, were_any, lasts, waits)
        return search

    def _next_look(self, queue: str, world: World, longest: float) -> float:
        """Return the seconds to the next search after one without offers."""
        before = self._known.get(queue)
        # Candidates remain for some time after their last job. More come only with new choices.
        if not world.jobs:
            return longest
        if before is None or before.were_any or not before.any_waited:
            return NOTHING_FOR
        return min(2 * before.lasts, longest)

    def _open(self, world: World, queue: Queue) -> Iterator[BorrowableJob]:
        """Yield the jobs of a world that the pilots of a queue take, in order."""
        return (offer for offer in policy.offers(world, queue.name) if offer.is_open)
