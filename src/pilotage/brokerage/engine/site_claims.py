"""Claims that keep sites from being overrun, whichever brokerage places jobs there (M8)."""

from collections.abc import Mapping
from dataclasses import replace

from pilotage.model.documents.decision import Change, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.capacity_claims import Claim
from pilotage.model.records.states import JOBS_AT_A_SITE
from pilotage.model.rules.site_limits import all_bounds, claims, queues_by_site


def with_site_claims(decision: Decision, world: World) -> Decision:
    """Return the same decision, where jobs for a site with limits claim their places there (M5).

    ``world`` has all queues of these sites, and the jobs there.
    """
    claimed = _claims_by_queue(world)
    if not claimed:
        return decision
    return replace(decision, changes=tuple(_with_claims(change, claimed) for change in decision.changes))


def _claims_by_queue(world: World) -> Mapping[str, tuple[Claim, ...]]:
    bounds = all_bounds(world)
    if not bounds:
        return {}
    told = {one.site: one for one in world.advertisements}
    queues = queues_by_site(world.federation)
    return {
        queue: found
        for site, own in bounds.items()
        if site in queues
        for found in [claims(own, queues[site], told.get(site))]
        for queue in queues[site]
    }


def _with_claims(change: Change, claimed: Mapping[str, tuple[Claim, ...]]) -> Change:
    if not isinstance(change, Move) or change.kind != "job" or change.target not in JOBS_AT_A_SITE:
        return change
    own = claimed.get(str(change.changes.get("queue", "")), ())
    return replace(change, claims=(*change.claims, *own)) if own else change
