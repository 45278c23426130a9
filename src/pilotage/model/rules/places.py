"""The site of each place: of a site, a queue, a storage or what a circuit breaker guards."""

from collections.abc import Collection, Iterator

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.records.federation import Federation
from pilotage.model.records.restrictions import RestrictedKind


def site_of(federation: Federation, name: str, kind: RestrictedKind | None = None) -> str | None:
    """Return the site of a place with this name, of a kind or of any; None if there is none."""
    return next((site for place, site in _places(federation, kind) if place == name), None)


def _places(federation: Federation, kind: RestrictedKind | None) -> Iterator[tuple[str, str]]:
    if kind in (None, "site"):
        yield from ((site.name, site.name) for site in federation.sites)
    if kind in (None, "queue"):
        yield from ((queue.name, queue.site) for queue in federation.queues)
    if kind in (None, "storage"):
        yield from ((storage.name, storage.site) for storage in federation.storages)


def is_at(breaker: CircuitBreaker, federation: Federation, sites: Collection[str]) -> bool:
    """Return whether a breaker guards a queue, its nodes or servers, or a storage at some sites."""
    kind: RestrictedKind = "storage" if breaker.kind == "storage" else "queue"
    ends = breaker.place if kind == "storage" else breaker.place[:1]
    return any(site_of(federation, name, kind) in sites for name in ends)
