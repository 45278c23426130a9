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
    return replace(
        federation,
        queues=tuple(_queue(queue, of_queue(restrictions, queue)) for queue in federation.queues),
        storages=tuple(
            _storage(storage, of_storage(restrictions, storage)) for storage in federation.storages
        ),
    )


def of_queue(restrictions: Iterable[Restriction], queue: Queue) -> list[Restriction]:
    """Return the restrictions that hold at a queue: its own, its unified queue's, then those of its site."""
    return _of(restrictions, "queue", (queue.name, queue.parent), queue.site)


def of_storage(restrictions: Iterable[Restriction], storage: Storage) -> list[Restriction]:
    """Return the restrictions that hold at a storage. A site that is drained still stages out."""
    restrictions = _of(restrictions, "storage", (storage.name,), storage.site)
    return [
        restriction
        for restriction in restrictions
        if restriction.kind == "storage" or restriction.mode == "close"
    ]


def of_federation(federation: Federation, restrictions: Iterable[Restriction]) -> tuple[Restriction, ...]:
    """Return the restrictions of what the federation has."""
    names: Mapping[RestrictedKind, set[str]] = {
        "site": {site.name for site in federation.sites},
        "queue": {queue.name for queue in federation.queues},
        "storage": {storage.name for storage in federation.storages},
    }
    return tuple(restriction for restriction in restrictions if restriction.name in names[restriction.kind])


def _of(
    restrictions: Iterable[Restriction], kind: RestrictedKind, names: Sequence[str], site: str
) -> list[Restriction]:
    places = [*((kind, name) for name in names), ("site", site)]
    matching = [restriction for restriction in restrictions if (restriction.kind, restriction.name) in places]
    return sorted(matching, key=lambda restriction: places.index((restriction.kind, restriction.name)))


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
