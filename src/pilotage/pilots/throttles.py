"""The throttles of sites as pilots meet them: what operators declare and what sites advertise (M5, M8)."""

from collections.abc import Mapping
from dataclasses import replace

from pilotage.model.advertisements import Advertisement, current
from pilotage.model.decision import Claim
from pilotage.model.federation import Site
from pilotage.model.site_limits import MAX_JOBS, MAX_SUBMITTING, limits, match_claim
from pilotage.model.world import World


def throttled(world: World) -> Mapping[str, Site]:
    """The sites by name, each with the limits that it leaves for our pilots."""
    told = _standing(world)
    return {site.name: _throttled(site, told.get(site.name)) for site in world.federation.sites}


def fences(world: World) -> Mapping[str, tuple[Claim, ...]]:
    """The claims by site that hand new pilots back where the site told other counts meanwhile."""
    return {
        site: (match_claim(site, told.number),)
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
    most = limits(site, told)
    return replace(
        site,
        max_jobs=_left(most.get(MAX_JOBS), others),
        max_submitting_jobs=_left(most.get(MAX_SUBMITTING), waiting),
    )


def _left(most: int | None, others: int) -> int | None:
    """The pilots that a limit leaves for us, beside jobs there that are not ours; None without a limit."""
    # A site may count late: fewer jobs than our pilots are no room for more of ours.
    return None if most is None else max(0, most - max(0, others))
