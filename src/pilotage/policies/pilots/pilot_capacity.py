"""Room for new pilots at queues and sites, and how it is shared (P4, P6, M8)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.counters import PILOTS_BY_QUEUE, PILOTS_BY_SITE, Claim
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS
from pilotage.model.records.unified_queues import PilotLimit, pilot_limits
from pilotage.model.records.work import Pilot
from pilotage.model.rules.site_limits import ANY_NUMBER, Bounds, match_claim
from pilotage.policies.pilots.apportionment import Floats, Ints, Wants, apportion
from pilotage.policies.pilots.demand import Demand
from pilotage.policies.pilots.task_queues import by_queue, element_of

Rows = Sequence[tuple[Queue, slice]]


class Live(NamedTuple):
    """The numbers of live pilots at one place, of waiting ones among them, and of their ``slots``.

    A pilot that waited too long keeps its room until it is cancelled, because it may still start.
    """

    live: int
    waiting: int
    slots: int


NOBODY = Live(0, 0, 0)


def live(pilots: Sequence[Pilot]) -> Live:
    """Count pilots."""
    slots = [pilot.slots for pilot in pilots if pilot.state in LIVE_PILOTS]
    waiting = sum(pilot.state in WAITING_PILOTS for pilot in pilots)
    return Live(len(slots), waiting, sum(slots))


class LimitedQueues(NamedTuple):
    """A limit on pilots of some queues together, and the pilots there (B2, P4)."""

    limit: PilotLimit
    there: Live

    @property
    def room(self) -> int:
        """Return how many new pilots these queues accept."""
        return max(0, self.limit.pilots - self.there.live)

    @property
    def claim(self) -> Claim:
        """Return the claim of new pilots there."""
        (first, *keys) = ((name,) for name in self.limit.queues)
        return Claim(
            counter=PILOTS_BY_QUEUE,
            key=first,
            others=tuple(keys),
            states=LIVE_PILOTS,
            limit=self.limit.pilots,
        )


def limited_queues(world: World) -> Mapping[str, tuple[LimitedQueues, ...]]:
    """Return the limits on pilots of each queue, by name."""
    present = by_queue(world.pilots)
    counted: dict[PilotLimit, LimitedQueues] = {}
    by_queue_name = {}
    for name, limits in pilot_limits(world.federation).items():
        for limit in limits:
            if limit not in counted:
                pilots = [pilot for queue in limit.queues for pilot in present.get(queue, ())]
                counted[limit] = LimitedQueues(limit, live(pilots))
        by_queue_name[name] = tuple(counted[limit] for limit in limits)
    return by_queue_name


class SiteRoom(NamedTuple):
    """The further slots and pilots that a site with limits accepts (M5, M8)."""

    slots: int
    pilots: int

    def slots_of(self, queue: Queue) -> int:
        """Return the number of slots of a queue's new pilot: fewer than usual if the site lacks room."""
        return max(1, min(element_of(queue).pilot_slots, self.slots))

    def pilots_of(self, slots: int) -> int:
        """Return the most new pilots with that many slots."""
        return min(self.pilots, self.slots // slots)


def site_room(bounds: Bounds, there: Live) -> SiteRoom:
    """Return the room within the limits of a site."""
    slots, pilots = ANY_NUMBER, ANY_NUMBER
    if bounds.jobs is not None:
        slots = max(0, bounds.jobs - there.slots)
    if bounds.submitting is not None:
        pilots = max(0, bounds.submitting - there.waiting)
    return SiteRoom(slots, pilots)


def site_claims(
    site: str, bounds: Bounds, advertisement: Advertisement | None, slots: int
) -> tuple[Claim, ...]:
    """Return claims of new pilots with that many slots at a site with limits (M5, M8)."""
    claims = []
    if bounds.jobs is not None:
        claims.append(
            Claim(
                counter=PILOTS_BY_SITE, key=(site, None), states=LIVE_PILOTS, limit=bounds.jobs, takes=slots
            )
        )
    if bounds.submitting is not None:
        claims.append(
            Claim(counter=PILOTS_BY_SITE, key=(site, None), states=WAITING_PILOTS, limit=bounds.submitting)
        )
    # Another advertisement may count more jobs of other people.
    return (*claims, *((match_claim(site, advertisement.number),) if advertisement else ()))


class Rooms(NamedTuple):
    """The most new pilots of each queue, of pseudo-queues together (B2), and of each site with limits."""

    queues: Mapping[str, int]
    together: Mapping[tuple[str, ...], int]
    sites: Mapping[str, int]


def shared(demand: Demand, wants: Wants, rooms: Rooms, random: Generator) -> Ints:
    """Return the pilots of each task queue: as many as it requests, or fewer if room is short.

    Room is shared in proportion to the means of P3, so that priorities count: over the sites, over the queues
    of a site, over the task queues of a queue.
    """
    requests, rows = wants.requests, demand.rows()
    weights = np.array([wants.means[part].sum() for _, part in rows])
    limits = np.array(
        [min(int(requests[part].sum()), rooms.queues[queue.name]) for queue, part in rows], dtype=np.int64
    )
    for names, room in rooms.together.items():
        parts = [number for number, (queue, _) in enumerate(rows) if queue.name in names]
        limits[parts] = apportion(weights[parts], limits[parts], room, random)
    totals = np.zeros_like(limits)
    for part, total in _over_sites(rows, weights, limits, rooms.sites, wants.total, random):
        totals[part] = apportion(weights[part], limits[part], total, random)
    counts = np.zeros_like(requests)
    for (_, at), total in zip(rows, totals.tolist(), strict=True):
        counts[at] = apportion(wants.means[at], requests[at], total, random)
    return counts


def _over_sites(
    rows: Rows, weights: Floats, limits: Ints, sites: Mapping[str, int], total: int | None, random: Generator
) -> Iterator[tuple[list[int], int]]:
    """Yield the queues of each site, and the pilots that they get together."""
    by_site: dict[str, list[int]] = defaultdict(list)
    for number, (queue, _) in enumerate(rows):
        by_site[queue.site].append(number)
    sums = [int(limits[part].sum()) for part in by_site.values()]
    rooms = np.array([min(n, sites.get(name, n)) for name, n in zip(by_site, sums, strict=True)])
    if total is not None:
        rooms = apportion(np.array([weights[part].sum() for part in by_site.values()]), rooms, total, random)
    yield from zip(by_site.values(), rooms.tolist(), strict=True)
