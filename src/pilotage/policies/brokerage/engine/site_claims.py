"""Claims that keep sites within their limits, for the decisions of every brokerage (M8)."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from pilotage.model.documents.decision import Change, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.counters import Claim
from pilotage.model.records.states import JOBS_AT_A_SITE
from pilotage.model.rules.site_limits import (
    ANY_NUMBER,
    NO_BOUNDS,
    all_bounds,
    claims,
    held_against,
    match_claim,
    queues_by_site,
)
from pilotage.policies.brokerage.engine.site_ads import SiteAd, requiring_ads

Claims = Callable[[str, int], tuple[Claim, ...]]
"""Returns the claims of jobs for a queue with a priority."""


def with_site_claims(decision: Decision, world: World) -> Decision:
    """Return the decision with claims: jobs for a site with limits claim their places there (M5).

    ``world`` has all queues of these sites, and the jobs there. Places that are held for jobs of higher
    priority count as taken.
    """
    claimed = _claims(decision, world)
    if claimed is None:
        return decision
    priorities = {job.id: job.priority for job in world.jobs}
    changes = tuple(_with_claims(change, claimed, priorities) for change in decision.changes)
    return replace(decision, changes=changes)


def _claims(decision: Decision, world: World) -> Claims | None:
    limits = all_bounds(world)
    moving = {ad.name: ad for ad in requiring_ads(world) if ad.moves and ad.advertisement}
    if not (limits or moving):
        return None
    advertisements = {ad.site: ad for ad in world.advertisements}
    queues, sites = (
        queues_by_site(world.federation),
        {queue.name: queue.site for queue in world.federation.queues},
    )
    placed = Counter[str]()
    for move in decision.moves if moving else ():
        placed[sites.get(str(move.changes.get("queue")), "")] += len(move.ids)
    matches = {site: _match_claim(ad, placed[site]) for site, ad in moving.items() if placed[site]}

    @cache
    def claims_of(queue: str, priority: int) -> tuple[Claim, ...]:
        site = sites.get(queue, "")
        site_bounds = limits.get(site, NO_BOUNDS).without(held_against(world.held_places, site, priority))
        required = (matches[site],) if site in matches else ()
        return (
            (*claims(site_bounds, queues[site], advertisements.get(site)), *required)
            if site in queues
            else ()
        )

    return claims_of


def _match_claim(ad: SiteAd, jobs: int) -> Claim:
    """Return a claim on as many of these ``jobs`` matches as the site's requirements allow (M4)."""
    # The library is an optional dependency, but needed to place a job at such a site.
    from pilotage.policies.brokerage.engine.advertised_sites import AdvertisedSites

    sites = AdvertisedSites((ad,))
    while sites.open[0] and sites.matched(0) < jobs:
        sites.match(0)
    advertisement = ad.advertisement
    number, matched = (advertisement.number, advertisement.matched) if advertisement else (0, 0)
    return match_claim(ad.name, number, matched + sites.matched(0) if not sites.open[0] else ANY_NUMBER)


def _with_claims(change: Change, claimed: Claims, priorities: Mapping[int, int]) -> Change:
    if not isinstance(change, Move) or change.kind != "job" or change.target not in JOBS_AT_A_SITE:
        return change
    # The jobs of a move belong to one task, and nearly always have one priority. Use the lowest.
    lowest = min(priorities.get(id_, 0) for id_ in change.ids)
    site_claims = claimed(str(change.changes.get("queue", "")), lowest)
    return replace(change, claims=(*change.claims, *site_claims)) if site_claims else change
