"""The federation as operators' restrictions leave it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pilotage.model.records.federation import Blacklisting, Federation, Queue, QueueStatus, Storage
from pilotage.model.records.restrictions import RestrictedKind, Restriction, RestrictionMode
from pilotage.model.records.unified_queues import conditioned

_STATUS: Mapping[RestrictionMode, QueueStatus] = {"drain": "draining", "close": "paused"}
_FORBIDDEN: Mapping[RestrictionMode, tuple[Blacklisting, ...]] = {
    "drain": ("write_lan", "write_wan"),
    "close": ("read_lan", "write_lan", "read_wan", "write_wan"),
}


def restricted(federation: Federation, restrictions: Sequence[Restriction]) -> Federation:
    """Return the federation with the statuses and blacklists that restrictions give (pure).

    Pseudo-queues have their unified queue's conditions, too (B2).
    """
    federation = conditioned(federation)
    if not restrictions:
        return federation
    places = by_place(restrictions)
    return replace(
        federation,
        queues=tuple(_queue(queue, of_queue(places, queue)) for queue in federation.queues),
        storages=tuple(_storage(storage, of_storage(places, storage)) for storage in federation.storages),
    )


RestrictedPlaces = Mapping[tuple[RestrictedKind, str], Sequence[Restriction]]
"""Restrictions by the kind and the name of their place."""


def by_place(restrictions: Iterable[Restriction]) -> RestrictedPlaces:
    """Return restrictions by their place, for quick look-ups among thousands of queues."""
    places: dict[tuple[RestrictedKind, str], list[Restriction]] = {}
    for restriction in restrictions:
        places.setdefault((restriction.kind, restriction.name), []).append(restriction)
    return places


def of_queue(places: RestrictedPlaces, queue: Queue) -> list[Restriction]:
    """Return the restrictions that hold at a queue: its own, its unified queue's, then its site's."""
    # A queue without a unified one has an empty parent, which is no name of a queue.
    own, unified = places.get(("queue", queue.name), ()), places.get(("queue", queue.parent), ())
    return [*own, *unified, *places.get(("site", queue.site), ())]


def of_storage(places: RestrictedPlaces, storage: Storage) -> list[Restriction]:
    """Return the restrictions that hold at a storage. A site that is drained still stages out."""
    of_site = places.get(("site", storage.site), ())
    closing = [restriction for restriction in of_site if restriction.mode == "close"]
    return [*places.get(("storage", storage.name), ()), *closing]


def of_federation(federation: Federation, restrictions: Iterable[Restriction]) -> tuple[Restriction, ...]:
    """Return the restrictions of what the federation has."""
    names: Mapping[RestrictedKind, set[str]] = {
        "site": {site.name for site in federation.sites},
        "queue": {queue.name for queue in federation.queues},
        "storage": {storage.name for storage in federation.storages},
    }
    return tuple(restriction for restriction in restrictions if restriction.name in names[restriction.kind])


def _queue(queue: Queue, restrictions: Sequence[Restriction]) -> Queue:
    # A queue that is offline in the file stays so: no restriction opens anything.
    if not restrictions or queue.status in ("offline", "draining"):
        return queue
    modes = {restriction.mode for restriction in restrictions}
    return replace(queue, status=_STATUS["drain" if "drain" in modes else "close"])


def _storage(storage: Storage, restrictions: Sequence[Restriction]) -> Storage:
    forbidden = {access for restriction in restrictions for access in _FORBIDDEN[restriction.mode]}
    if not forbidden:
        return storage
    accesses = [
        access for access in _FORBIDDEN["close"] if access in forbidden or access in storage.blacklisted
    ]
    return replace(storage, blacklisted=tuple(accesses))
