"""Room for new pilots at queues and sites, and how it is shared (P4, P6, M8)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.capacity_claims import Claim
from pilotage.model.records.counters import PILOTS_BY_QUEUE, PILOTS_BY_SITE
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
    """Live pilots at one place, waiting ones among them, and the ``slots`` of all.

    A pilot that waited too long holds its room until it is cancelled: it may start before.
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
        return max(0, self.limit.most - self.there.live)

    @property
    def claim(self) -> Claim:
        """Return the claim of new pilots there."""
        (first, *others) = ((name,) for name in self.limit.queues)
        return Claim(
            counter=PILOTS_BY_QUEUE,
            key=first,
            others=tuple(others),
            states=LIVE_PILOTS,
            limit=self.limit.most,
        )


def limited_queues(world: World) -> Mapping[str, tuple[LimitedQueues, ...]]:
    """Return the limits on pilots of each queue, by name."""
    present = by_queue(world.pilots)
    counted: dict[PilotLimit, LimitedQueues] = {}
    found = {}
    for name, limits in pilot_limits(world.federation).items():
        for limit in limits:
            if limit not in counted:
                pilots = [pilot for one in limit.queues for pilot in present.get(one, ())]
                counted[limit] = LimitedQueues(limit, live(pilots))
        found[name] = tuple(counted[limit] for limit in limits)
    return found


class SiteRoom(NamedTuple):
    """The further slots and pilots that a site with limits accepts (M5, M8)."""

    slots: int
    pilots: int

    def slots_of(self, queue: Queue) -> int:
        """Return the slots of a queue's new pilot: fewer than usual if the site has room for no more."""
        return max(1, min(element_of(queue).pilot_slots, self.slots))

    def pilots_of(self, slots: int) -> int:
        """Return the most new pilots with that many slots."""
        return min(self.pilots, self.slots // slots)


def site_room(own: Bounds, there: Live) -> SiteRoom:
    """Return the room within the limits of a site."""
    slots, pilots = ANY_NUMBER, ANY_NUMBER
    if own.jobs is not None:
        slots = max(0, own.jobs - there.slots)
    if own.submitting is not None:
        pilots = max(0, own.submitting - there.waiting)
    return SiteRoom(slots, pilots)


def site_claims(site: str, own: Bounds, told: Advertisement | None, slots: int) -> tuple[Claim, ...]:
    """Return claims of new pilots with that many slots at a site with limits (M5, M8)."""
    found = []
    if own.jobs is not None:
        found.append(
            Claim(counter=PILOTS_BY_SITE, key=(site, None), states=LIVE_PILOTS, limit=own.jobs, takes=slots)
        )
    if own.submitting is not None:
        found.append(
            Claim(counter=PILOTS_BY_SITE, key=(site, None), states=WAITING_PILOTS, limit=own.submitting)
        )
    # Another advertisement may count more jobs of other people.
    return (*found, *((match_claim(site, told.number),) if told else ()))


class Rooms(NamedTuple):
    """The most new pilots of each queue, of pseudo-queues together (B2), and of each site with limits."""

    queues: Mapping[str, int]
    together: Mapping[tuple[str, ...], int]
    sites: Mapping[str, int]


def shared(demand: Demand, wants: Wants, rooms: Rooms, random: Generator) -> Ints:
    """Return the pilots of each task queue: as many as it requests, as far as there is room.

    Room is shared in proportion to the means of P3, so that priorities count: over the sites, over the queues
    of a site, over the task queues of a queue.
    """
    asked, rows = wants.asked, demand.rows()
    weights = np.array([wants.means[own].sum() for _, own in rows])
    most = np.array(
        [min(int(asked[own].sum()), rooms.queues[queue.name]) for queue, own in rows], dtype=np.int64
    )
    for names, room in rooms.together.items():
        parts = [number for number, (queue, _) in enumerate(rows) if queue.name in names]
        most[parts] = apportion(weights[parts], most[parts], room, random)
    given = np.zeros_like(most)
    for own, total in _over_sites(rows, weights, most, rooms.sites, wants.total, random):
        given[own] = apportion(weights[own], most[own], total, random)
    counts = np.zeros_like(asked)
    for (_, at), total in zip(rows, given.tolist(), strict=True):
        counts[at] = apportion(wants.means[at], asked[at], total, random)
    return counts


def _over_sites(
    rows: Rows, weights: Floats, most: Ints, sites: Mapping[str, int], total: int | None, random: Generator
) -> Iterator[tuple[list[int], int]]:
    """Yield the queues of each site, and the pilots that they get together."""
    by_site: dict[str, list[int]] = defaultdict(list)
    for number, (queue, _) in enumerate(rows):
        by_site[queue.site].append(number)
    sums = [int(most[own].sum()) for own in by_site.values()]
    rooms = np.array([min(n, sites.get(name, n)) for name, n in zip(by_site, sums, strict=True)])
    if total is not None:
        rooms = apportion(np.array([weights[own].sum() for own in by_site.values()]), rooms, total, random)
    yield from zip(by_site.values(), rooms.tolist(), strict=True)
