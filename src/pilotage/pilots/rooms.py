"""Room for new pilots at queues and sites, and how it is shared (P4, P6, M8)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from pilotage.model.counters import PILOTS_BY_QUEUE, PILOTS_BY_SITE
from pilotage.model.decision import Claim
from pilotage.model.federation import Queue, Site
from pilotage.model.states import LIVE_PILOTS, WAITING_PILOTS
from pilotage.model.work import Pilot
from pilotage.model.world import World

from .apportionment import Floats, Ints, apportion
from .demand import Demand, is_believed
from .servers import OpenServer
from .task_queues import element_of
from .wants import Wants

Rows = Sequence[tuple[Queue, slice]]


class Live(NamedTuple):
    """Pilots somewhere: those that live, those of them that wait, and those that waited too long to count."""

    live: int
    waiting: int
    stale: int


NOBODY = Live(0, 0, 0)


def live(world: World, pilots: Sequence[Pilot]) -> Live:
    """Count pilots; what has waited too long holds no room (P4)."""
    stale = sum(not is_believed(world, pilot) for pilot in pilots)
    waiting = sum(pilot.state in WAITING_PILOTS for pilot in pilots)
    return Live(sum(pilot.state in LIVE_PILOTS for pilot in pilots), waiting, stale)


def queue_room(queue: Queue, there: Live, servers: Sequence[OpenServer]) -> int:
    """New pilots that a queue takes: up to its ``max_pilots``, fewer where its servers rest (P6)."""
    free = element_of(queue).max_pilots - (there.live - there.stale)
    return max(0, int(min(free, sum(server.room for server in servers))))


def site_room(site: Site, there: Live) -> int | None:
    """New pilots that a site takes by its throttle; None where it has none (M5, M8)."""
    free = []
    if site.max_jobs is not None:
        free.append(site.max_jobs - (there.live - there.stale))
    if site.max_submitting_jobs is not None:
        free.append(site.max_submitting_jobs - (there.waiting - there.stale))
    return max(0, min(free)) if free else None


def claims(queue: Queue, site: Site | None, queued: Live, sited: Live) -> tuple[Claim, ...]:
    """The claims of new pilots of a queue. Who waited too long is still counted until it is cancelled."""
    found = [
        Claim(
            counter=PILOTS_BY_QUEUE,
            key=(queue.name,),
            states=LIVE_PILOTS,
            limit=element_of(queue).max_pilots + queued.stale,
        )
    ]
    if site is not None:
        for limit, states in ((site.max_jobs, LIVE_PILOTS), (site.max_submitting_jobs, WAITING_PILOTS)):
            if limit is not None:
                found.append(
                    Claim(counter=PILOTS_BY_SITE, key=(site.name,), states=states, limit=limit + sited.stale)
                )
    return tuple(found)


def shared(
    demand: Demand, wants: Wants, queues: Mapping[str, int], sites: Mapping[str, int], random: Generator
) -> Ints:
    """The pilots of each task queue: what it asks for, as far as there is room for it.

    Room is shared in proportion to the means of P3, so that priorities are followed: over the sites, over
    the queues of a site, over the task queues of a queue.
    """
    asked, rows = wants.asked, demand.rows()
    weights = np.array([wants.means[own].sum() for _, own in rows])
    most = np.array([min(int(asked[own].sum()), queues[queue.name]) for queue, own in rows], dtype=np.int64)
    given = np.zeros_like(most)
    for own, total in _over_sites(rows, weights, most, sites, wants.total, random):
        given[own] = apportion(weights[own], most[own], total, random)
    counts = np.zeros_like(asked)
    for (_, at), total in zip(rows, given.tolist(), strict=True):
        counts[at] = apportion(wants.means[at], asked[at], total, random)
    return counts


def _over_sites(
    rows: Rows, weights: Floats, most: Ints, sites: Mapping[str, int], total: int | None, random: Generator
) -> Iterator[tuple[list[int], int]]:
    """The queues of each site, and the pilots that they get together."""
    by_site: dict[str, list[int]] = defaultdict(list)
    for number, (queue, _) in enumerate(rows):
        by_site[queue.site].append(number)
    sums = [int(most[own].sum()) for own in by_site.values()]
    rooms = np.array([min(n, sites.get(name, n)) for name, n in zip(by_site, sums, strict=True)])
    if total is not None:
        rooms = apportion(np.array([weights[own].sum() for own in by_site.values()]), rooms, total, random)
    yield from zip(by_site.values(), rooms.tolist(), strict=True)
