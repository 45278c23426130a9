"""Quotas of copies that Pilotage makes: per storage, and per scope at each storage."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pilotage.model.records.data import CopiesSize
from pilotage.model.records.federation import Federation

GIGABYTE = 1_000_000_000

Counted = tuple[str, str | None]
"""A storage, and a scope there; None for all scopes together."""


def usage(sizes: Iterable[CopiesSize]) -> Counter[Counted]:
    """Return the bytes of all copies by storage, and by storage and scope."""
    used: Counter[Counted] = Counter()
    for copies in sizes:
        used[copies.storage, None] += copies.size
        used[copies.storage, copies.scope] += copies.size
    return used


def quota(federation: Federation, place: Counted) -> float | None:
    """Return the most bytes of copies at a place; None if there is no limit."""
    storage, scope = place
    if scope is None:
        gigabytes = next(
            (declared.copies_quota for declared in federation.storages if declared.name == storage), None
        )
    else:
        gigabytes = federation.staging.copies_quotas.get(scope)
    return None if gigabytes is None else gigabytes * GIGABYTE


def exceeded(federation: Federation, sizes: Iterable[CopiesSize]) -> Iterator[Counted]:
    """Yield the places where copies exceed their limit."""
    for place, size in sorted(usage(sizes).items(), key=str):
        limit = quota(federation, place)
        if limit is not None and size > limit:
            yield place
