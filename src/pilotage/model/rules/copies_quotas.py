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
    for one in sizes:
        used[one.storage, None] += one.size
        used[one.storage, one.scope] += one.size
    return used


def quota(federation: Federation, place: Counted) -> float | None:
    """Return the most bytes of copies at a place; None if there is no limit."""
    storage, scope = place
    if scope is None:
        found = next((one.copies_quota for one in federation.storages if one.name == storage), None)
    else:
        found = federation.staging.copies_quotas.get(scope)
    return None if found is None else found * GIGABYTE


def exceeded(federation: Federation, sizes: Iterable[CopiesSize]) -> Iterator[Counted]:
    """Yield the places where copies exceed their limit."""
    for place, size in sorted(usage(sizes).items(), key=str):
        most = quota(federation, place)
        if most is not None and size > most:
            yield place
