"""Limits of a site, the lower of what operators declare and what its ad says, and what these leave (M5)."""

from .advertisements import Advertisement
from .counters import MATCHES_BY_SITE
from .decision import Claim
from .federation import Site

MAX_JOBS, MAX_SUBMITTING, MAX_PENDING = "MaxJobs", "MaxSubmittingJobs", "MaxPendingJobs"
CURRENT_JOBS, CURRENT_SUBMITTING, PENDING = "CurrentJobs", "CurrentSubmittingJobs", "PendingJobs"

ANY_NUMBER = 10**9
"""A limit that bounds nothing: what is claimed is that the advertisement stands."""

_ROOMS = ((MAX_JOBS, CURRENT_JOBS), (MAX_SUBMITTING, CURRENT_SUBMITTING), (MAX_PENDING, PENDING))


def limits(site: Site, told: Advertisement | None) -> dict[str, int]:
    """The limits of a site by name; what has none is left out."""
    found: dict[str, int] = {}
    for name, declared in (
        (MAX_JOBS, site.max_jobs),
        (MAX_SUBMITTING, site.max_submitting_jobs),
        (MAX_PENDING, site.max_pending_jobs),
    ):
        said = told.attributes.get(name) if told else None
        known = [limit for limit in (declared, said) if isinstance(limit, int)]
        if known:
            found[name] = min(known)
    return found


def counts(told: Advertisement) -> dict[str, int]:
    """The jobs at a site by the name of what is told of them, as of its advertisement."""
    waiting = told.attributes.get(PENDING, told.current_submitting_jobs)
    return {
        CURRENT_JOBS: told.current_jobs,
        CURRENT_SUBMITTING: told.current_submitting_jobs,
        PENDING: waiting,
    }


def matches_left(site: Site, told: Advertisement) -> int:
    """The most matches since its advertisement that a site's throttle takes, whoever makes them (M6, M8)."""
    most, there = limits(site, told), counts(told)
    rooms = {limit: most[limit] - there[count] for limit, count in _ROOMS if limit in most}
    # Too many that wait leave no room for more; they take nothing from what runs in a place of its own.
    rooms |= {limit: max(0, room) for limit, room in rooms.items() if limit != MAX_JOBS}
    if site.throttle == "current":
        rooms[MAX_JOBS] = ANY_NUMBER if rooms.get(MAX_JOBS, 1) > 0 else 0
    return min([ANY_NUMBER, *rooms.values()])


def match_claim(site: str, number: int, limit: int = ANY_NUMBER) -> Claim:
    """Claim matches since a site's advertisement of this number, so that none is made on an older one."""
    return Claim(counter=MATCHES_BY_SITE, key=(site, number), states=(), limit=limit)
