"""The throttles of sites as pilots meet them: what operators declare and what sites advertise (M5, M8)."""

from collections.abc import Mapping
from dataclasses import replace

from pilotage.model.advertisements import Advertisement, current
from pilotage.model.counters import MATCHES_BY_SITE
from pilotage.model.decision import Claim
from pilotage.model.federation import Site
from pilotage.model.world import World

ANY_NUMBER = 10**9
"""A limit that bounds nothing: what is claimed is that the advertisement stands."""


def throttled(world: World) -> Mapping[str, Site]:
    """The sites by name, each with the limits that it leaves for our pilots."""
    told = _standing(world)
    return {site.name: _throttled(site, told.get(site.name)) for site in world.federation.sites}


def fences(world: World) -> Mapping[str, tuple[Claim, ...]]:
    """The claims by site that hand new pilots back where the site told other counts meanwhile."""
    return {
        site: (Claim(counter=MATCHES_BY_SITE, key=(site, told.number), states=(), limit=ANY_NUMBER),)
        for site, told in _standing(world).items()
        if told.source == "pushed"
    }


def _standing(world: World) -> Mapping[str, Advertisement]:
    period = world.federation.brokerage.advertise_period
    return {told.site: told for told in world.advertisements if current(told, world.time, period)}


def _throttled(site: Site, told: Advertisement | None) -> Site:
    if told is None:
        return site
    others = told.current_jobs - told.pilots
    waiting = told.current_submitting_jobs - told.submitting
    said = told.attributes.get
    return replace(
        site,
        max_jobs=_left(site.max_jobs, said("MaxJobs"), others),
        max_submitting_jobs=_left(site.max_submitting_jobs, said("MaxSubmittingJobs"), waiting),
    )


def _left(declared: int | None, said: object, others: int) -> int | None:
    """The pilots that a limit leaves for us, beside jobs there that are not ours; None without a limit."""
    known = [limit for limit in (declared, said) if isinstance(limit, int)]
    # A site may count late: fewer jobs than our pilots are no room for more of ours.
    return max(0, min(known) - max(0, others)) if known else None
