"""Limits of sites, and the jobs there. A job counts from its match to its end, whoever runs it (M5)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import NamedTuple

from pilotage.model.documents.world import JobCount, World
from pilotage.model.records.advertisements import LIMITS, Advertisement, HeldPlaces, as_count, canonical
from pilotage.model.records.capacity_claims import Claim
from pilotage.model.records.counters import JOBS_BY_QUEUE, MATCHES_BY_SITE
from pilotage.model.records.federation import Federation, Site
from pilotage.model.records.states import JOBS_AT_A_SITE, SUBMITTING_JOBS

MAX_JOBS, MAX_SUBMITTING, MAX_PENDING = LIMITS

ANY_NUMBER = 10**9
"""A limit without effect: the claim only checks that the advertisement is still current."""


class JobsThere(NamedTuple):
    """Our jobs at a site, and those of them that no pilot runs yet (M5)."""

    jobs: int = 0
    submitting: int = 0


class Bounds(NamedTuple):
    """The most jobs of ours at a site, and the most that no pilot runs yet; None for no limit (M5).

    ``jobs`` also limits the slots of our pilots, and ``submitting`` our waiting pilots.
    """

    jobs: int | None = None
    submitting: int | None = None

    def without(self, places: int) -> "Bounds":
        """Return the same less some places that are held for others."""
        less = (None if most is None else max(0, most - places) for most in self)
        return Bounds(*less)

    def left(self, there: JobsThere) -> int:
        """Return how many more jobs may be matched to the site."""
        room = ANY_NUMBER if self.jobs is None else self.jobs - there.jobs
        if self.submitting is not None:
            room = min(room, self.submitting - there.submitting)
        return max(0, room)


NO_BOUNDS, NOBODY = Bounds(), JobsThere()
UNANSWERED = Bounds(0, 0)
"""The limits of a site whose batch system has not answered yet: nothing goes there (M2)."""


def limits(site: Site, told: Advertisement | None) -> dict[str, int]:
    """Return the limits of a site by name: the lower of the declared and the advertised one.

    Missing limits are left out.
    """
    declared = {MAX_JOBS: site.max_jobs, MAX_SUBMITTING: site.max_submitting_jobs}
    declared[MAX_PENDING] = site.max_pending_jobs
    # Older federations may have them among the attributes too.
    added = canonical(site.attributes) if site.attributes else {}
    found: dict[str, int] = {}
    for name, most in declared.items():
        said = (most, as_count(added.get(name)), told.count(name) if told else None)
        known = [limit for limit in said if limit is not None]
        if known:
            found[name] = min(known)
    return found


def bounds(site: Site, told: Advertisement | None) -> Bounds:
    """Return the limits of a site minus other people's jobs there, by its last advertisement.

    A silent site keeps the limits of its last advertisement.
    """
    most = limits(site, told)
    if not most:
        return NO_BOUNDS
    jobs = most.get(MAX_JOBS)
    waiting = [
        most[name] - others
        for name, others in (
            (MAX_SUBMITTING, told.other_submitting_jobs if told else 0),
            (MAX_PENDING, told.other_pending_jobs if told else 0),
        )
        if name in most
    ]
    return Bounds(
        None if jobs is None else max(0, jobs - (told.other_jobs if told else 0)),
        max(0, min(waiting)) if waiting else None,
    )


def all_bounds(world: World) -> Mapping[str, Bounds]:
    """Return the limits of every site that has any, by name."""
    ads, asked = {ad.site: ad for ad in world.advertisements if ad.time}, asked_sites(world.federation)
    found = {}
    for site in world.federation.sites:
        most = bounds(site, ads.get(site.name))
        if most is not NO_BOUNDS:
            # Until its batch system has answered, nobody knows how many jobs of others are there (M2).
            found[site.name] = UNANSWERED if site.name in asked and site.name not in ads else most
    return found


def next_cycle(time: float, period: float) -> float:
    """Return when the next match-making cycle begins, in s since 1970 (M7).

    Periods are whole ones since 1970, so that all passes and all servers wait for the same moment.
    """
    return float((floor(time / period) + 1) * period)


def held_against(held: Iterable[HeldPlaces], site: str, priority: int) -> int:
    """Return the places at a site that jobs above a priority wait for until the next cycle (M7, M8)."""
    return sum(one.jobs for one in held if one.site == site and one.priority > priority)


def asked_sites(federation: Federation) -> frozenset[str]:
    """Return the sites whose batch systems are asked for their jobs."""
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
    found: dict[str, list[str]] = defaultdict(list)
    for queue in federation.queues:
        found[queue.site].append(queue.name)
    return {site: sorted(names) for site, names in found.items()}


def claims(own: Bounds, queues: Sequence[str], told: Advertisement | None) -> tuple[Claim, ...]:
    """Return claims of jobs matched to a site with these queues, whoever matches them (M5, M8).

    They count the jobs themselves. They also claim that the advertisement is still current: another one may
    count more jobs of other people.
    """
    found = [
        _claim(queues, states, limit)
        for states, limit in ((JOBS_AT_A_SITE, own.jobs), (SUBMITTING_JOBS, own.submitting))
        if limit is not None
    ]
    if found and told is not None:
        found.append(match_claim(told.site, told.number))
    return tuple(found)


def _claim(queues: Sequence[str], states: tuple[str, ...], limit: int) -> Claim:
    (first, *others) = ((name, None) for name in queues)
    return Claim(counter=JOBS_BY_QUEUE, key=first, others=tuple(others), states=states, limit=limit)  # type: ignore[arg-type]


def match_claim(site: str, number: int, limit: int = ANY_NUMBER) -> Claim:
    """Return a claim on matches since a site's advertisement of this number, so that no match uses an
    older one."""
    return Claim(counter=MATCHES_BY_SITE, key=(site, number), states=(), limit=limit)
