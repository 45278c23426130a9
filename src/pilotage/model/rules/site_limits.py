"""Limits of sites, and the jobs there. A job counts from its match to its end, at any pilot (M5)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import NamedTuple

from pilotage.model.documents.world import JobCount, World
from pilotage.model.records.advertisements import LIMITS, Advertisement, HeldPlaces, as_count, canonical
from pilotage.model.records.counters import JOBS_BY_QUEUE, MATCHES_BY_SITE, Claim
from pilotage.model.records.federation import Federation, Site
from pilotage.model.records.states import JOBS_AT_A_SITE, SUBMITTING_JOBS

MAX_JOBS, MAX_SUBMITTING, MAX_PENDING = LIMITS

ANY_NUMBER = 10**9
"""A limit without effect: the claim only checks that the advertisement is still current."""


class JobsThere(NamedTuple):
    """Our jobs at a site, and how many of them no pilot runs yet (M5)."""

    jobs: int = 0
    submitting: int = 0


class Bounds(NamedTuple):
    """The most jobs of Pilotage at a site, and the most that no pilot runs yet; None: no limit (M5).

    ``jobs`` also limits the slots of our pilots, and ``submitting`` our waiting pilots.
    """

    jobs: int | None = None
    submitting: int | None = None

    def without(self, places: int) -> "Bounds":
        """Return the same less some places that are held for others."""
        less = (None if bound is None else max(0, bound - places) for bound in self)
        return Bounds(*less)

    def room(self, there: JobsThere) -> int:
        """Return how many more jobs may be matched to the site."""
        room = ANY_NUMBER if self.jobs is None else self.jobs - there.jobs
        if self.submitting is not None:
            room = min(room, self.submitting - there.submitting)
        return max(0, room)


NO_BOUNDS, NOBODY = Bounds(), JobsThere()
UNANSWERED = Bounds(0, 0)
"""The limits of a site whose batch system has not answered yet: nothing goes there (M2)."""


def limits(site: Site, advertisement: Advertisement | None) -> dict[str, int]:
    """Return the limits of a site by name: the lower of the declared and the advertised one.

    Missing limits are left out.
    """
    declared = {MAX_JOBS: site.max_jobs, MAX_SUBMITTING: site.max_submitting_jobs}
    declared[MAX_PENDING] = site.max_pending_jobs
    # Older federations may have them among the attributes too.
    added = canonical(site.attributes) if site.attributes else {}
    limits: dict[str, int] = {}
    for name, limit in declared.items():
        values = (limit, as_count(added.get(name)), advertisement.count(name) if advertisement else None)
        numbers = [limit for limit in values if limit is not None]
        if numbers:
            limits[name] = min(numbers)
    return limits


def bounds(site: Site, advertisement: Advertisement | None) -> Bounds:
    """Return the limits of a site minus other people's jobs there, by its last advertisement.

    A silent site keeps the limits of its last advertisement.
    """
    site_limits = limits(site, advertisement)
    if not site_limits:
        return NO_BOUNDS
    jobs = site_limits.get(MAX_JOBS)
    waiting = [
        site_limits[name] - other_jobs
        for name, other_jobs in (
            (MAX_SUBMITTING, advertisement.other_submitting_jobs if advertisement else 0),
            (MAX_PENDING, advertisement.other_pending_jobs if advertisement else 0),
        )
        if name in site_limits
    ]
    return Bounds(
        None if jobs is None else max(0, jobs - (advertisement.other_jobs if advertisement else 0)),
        max(0, min(waiting)) if waiting else None,
    )


def all_bounds(world: World) -> Mapping[str, Bounds]:
    """Return the limits of every site that has any, by name."""
    ads, polled = {ad.site: ad for ad in world.advertisements if ad.time}, asked_sites(world.federation)
    by_site = {}
    for site in world.federation.sites:
        site_bounds = bounds(site, ads.get(site.name))
        if site_bounds is not NO_BOUNDS:
            # Until its batch system has answered, the number of other people's jobs there is unknown (M2).
            by_site[site.name] = UNANSWERED if site.name in polled and site.name not in ads else site_bounds
    return by_site


def next_cycle(time: float, period: float) -> float:
    """Return when the next match-making cycle begins, in s since 1970 (M7).

    Periods are whole ones since 1970, so that all passes and all servers wait for the same moment.
    """
    return float((floor(time / period) + 1) * period)


def held_against(places: Iterable[HeldPlaces], site: str, priority: int) -> int:
    """Return the places at a site that jobs above a priority wait for until the next cycle (M7, M8)."""
    return sum(place.jobs for place in places if place.site == site and place.priority > priority)


def asked_sites(federation: Federation) -> frozenset[str]:
    """Return the sites with batch systems that Pilotage asks for their jobs."""
    return frozenset(queue.site for queue in federation.queues if queue.computing_element is not None)


def jobs_there(federation: Federation, counts: Iterable[JobCount]) -> Mapping[str, JobsThere]:
    """Return our jobs by site, without sites that have none."""
    sites = {queue.name: queue.site for queue in federation.queues}
    jobs, submitting = Counter[str](), Counter[str]()
    for row in counts:
        site = sites.get(row.queue)
        if site is not None and row.state in _AT_A_SITE:
            jobs[site] += row.jobs
            if row.state in _SUBMITTING:
                submitting[site] += row.jobs
    return {site: JobsThere(count, submitting[site]) for site, count in jobs.items()}


_AT_A_SITE, _SUBMITTING = frozenset(JOBS_AT_A_SITE), frozenset(SUBMITTING_JOBS)


def queues_by_site(federation: Federation) -> Mapping[str, Sequence[str]]:
    """Return the names of each site's queues, in order."""
    queues: dict[str, list[str]] = defaultdict(list)
    for queue in federation.queues:
        queues[queue.site].append(queue.name)
    return {site: sorted(names) for site, names in queues.items()}


def claims(
    site_bounds: Bounds, queues: Sequence[str], advertisement: Advertisement | None
) -> tuple[Claim, ...]:
    """Return claims that bound the jobs matched to a site with these queues (M5, M8).

    They count the jobs in the store, so matches of other servers count. They also claim that the
    advertisement is still current: another one may count more jobs of other people.
    """
    claims = [
        _claim(queues, states, limit)
        for states, limit in ((JOBS_AT_A_SITE, site_bounds.jobs), (SUBMITTING_JOBS, site_bounds.submitting))
        if limit is not None
    ]
    if claims and advertisement is not None:
        claims.append(match_claim(advertisement.site, advertisement.number))
    return tuple(claims)


def _claim(queues: Sequence[str], states: tuple[str, ...], limit: int) -> Claim:
    (first, *further) = ((name, None) for name in queues)
    return Claim(counter=JOBS_BY_QUEUE, key=first, others=tuple(further), states=states, limit=limit)  # type: ignore[arg-type]


def match_claim(site: str, number: int, limit: int = ANY_NUMBER) -> Claim:
    """Return a claim on matches since a site's advertisement of this number, so that no match uses an
    older one."""
    return Claim(counter=MATCHES_BY_SITE, key=(site, number), states=(), limit=limit)
