"""Sites and their advertisements, for people and for the sites' administrators (M2, M4, M5)."""

from collections.abc import Mapping
from dataclasses import replace

from pilotage.flow.calls.places.site_views import NotTrue, QueueMatch, SiteState
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Choice, Create, Decision
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import COUNTS_EVERYBODY, NewAdvertisement, parsed
from pilotage.model.rules.site_limits import asked_sites
from pilotage.model.values.step_names import ADVERTISE
from pilotage.policies.brokerage.engine.site_ads import SiteAd, site_ads
from pilotage.store.tasks.work import brokered_again


def views(runtime: Runtime) -> list[SiteState]:
    """Return every site with a queue, by name."""
    world = _world(runtime)
    restricted = {
        restriction.name: restriction.text
        for restriction in runtime.store.restrictions()
        if restriction.kind == "site"
    }
    return [replace(_view(ad), restriction=restricted.get(ad.name, "")) for ad in site_ads(world)]


def text(runtime: Runtime, site: str) -> str | None:
    """Return a site's ClassAd as text; None if there is no such site with a queue."""
    return next((ad.text() for ad in site_ads(_world(runtime)) if ad.name == site), None)


def push(runtime: Runtime, site: str, ad: str, actor: str) -> None:
    """Store an advertisement sent by a site. Raises ``ClassAdError`` for a forbidden one."""
    _advertise(runtime, parsed(ad, site), actor)


def withdraw(runtime: Runtime, site: str, actor: str) -> None:
    """Forget a site's own advertisement. Its batch systems are read again."""
    is_asked = site in asked_sites(runtime.store.federation())
    record = NewAdvertisement(site=site, source="native", answered=0.0 if is_asked else None)
    _advertise(runtime, record, actor)


def matches(runtime: Runtime, task: int) -> list[QueueMatch]:
    """Match a task's jobs with all queues by their ads, even if the task uses another brokerage.

    Raises ``brokerage.PluginError`` if the ClassAd library is not installed.
    """
    world = runtime.world(*brokered_again(task), "advertisements")
    options: Mapping[str, object] = {}
    reports = runtime.elements.inquiries.unanswered()
    world = replace(runtime.elements.reported(world), server_reports=reports)
    choices = runtime.brokerages.get("matchmaking", options).decide(world).choices
    return _of_choice(choices[0], world) if choices else []


def _world(runtime: Runtime) -> World:
    world = runtime.world("advertisements", "job_counts")
    return replace(world, server_reports=runtime.elements.inquiries.unanswered())


def _advertise(runtime: Runtime, record: NewAdvertisement, actor: str) -> None:
    change = Create(records=(record,), cause=f"advertised by {actor}")
    now, seed = runtime.clock(), runtime.seeds()
    runtime.store.commit(Decision(step=ADVERTISE, time=now, seed=seed, changes=(change,)), actor)


def _view(ad: SiteAd) -> SiteState:
    advertisement = ad.advertisement
    return SiteState(
        site=ad.name,
        source=advertisement.source if advertisement else "",
        advertised=advertisement.time if advertisement else None,
        current_jobs=max(ad.there.jobs, advertisement.pilot_slots) + advertisement.other_jobs
        if advertisement
        else None,
        current_submitting_jobs=ad.there.submitting + advertisement.other_submitting_jobs
        if advertisement
        else None,
        matched=advertisement.matched if advertisement else None,
        max_jobs=ad.attributes.get("MaxJobs"),
        max_submitting_jobs=ad.attributes.get("MaxSubmittingJobs"),
        max_pending_jobs=ad.attributes.get("MaxPendingJobs"),
        jobs=ad.there.jobs,
        slots=advertisement.pilot_slots if advertisement else 0,
        problem=ad.stale,
        counts_everybody=advertisement.attributes.get(COUNTS_EVERYBODY) if advertisement else None,
    )


def _of_choice(choice: Choice, world: World) -> list[QueueMatch]:
    ranks = dict(zip(choice.candidates.queues, choice.candidates.weights, strict=True))
    reasons: dict[str, list[NotTrue]] = {}
    for refusal in choice.refusals:
        for at, queue in enumerate(refusal.queues):
            need = refusal.need[at] if isinstance(refusal.need, tuple) else refusal.need
            reason = NotTrue(rule=refusal.rule, name=refusal.name, need=need, have=refusal.have[at])
            reasons.setdefault(queue, []).append(reason)
    return [
        QueueMatch(
            site=queue.site,
            queue=queue.name,
            rank=ranks.get(queue.name),
            refusals=tuple(reasons.get(queue.name, ())),
        )
        for queue in sorted(world.federation.queues, key=lambda queue: (queue.site, queue.name))
    ]
