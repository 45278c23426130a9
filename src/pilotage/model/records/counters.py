"""Counters of the store, of records by kind, state and some columns, and claims on their limits."""

from dataclasses import dataclass

from pilotage.model.records.states import Kind, State
from pilotage.model.values.slot_parts import BUNDLE
from pilotage.model.values.types import DESCRIBED

JOBS_BY_QUEUE = "jobs_by_queue"
JOBS_BY_TASK = "jobs_by_task"
TRANSFERS_BY_SHARE = "transfers_by_share"
TRANSFERS_BY_LINK = "transfers_by_link"
PILOTS_BY_QUEUE = "pilots_by_queue"
PILOTS_BY_SITE = "pilots_by_site"
"""Pilots by site and by the slots of each: limits of sites apply to these (M5, M8)."""

MATCHES_BY_SITE = "matches_by_site"
"""Jobs matched since an advertisement, by site and the advertisement's number. No state of records shows
this. A claim on it fails once the site has advertised again, whatever its limit (M5)."""

COUNTERS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    JOBS_BY_QUEUE: ("job", ("queue", "share")),
    JOBS_BY_TASK: ("job", ("task",)),
    TRANSFERS_BY_SHARE: ("transfer", ("share", "size_class")),
    TRANSFERS_BY_LINK: ("transfer", ("source", "destination", "direction")),
    PILOTS_BY_QUEUE: ("pilot", ("queue",)),
    PILOTS_BY_SITE: ("pilot", ("site", "slots")),
}
"""The kind that each counter counts, and its key: one row per value of the key's columns and state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Capacity that a change takes. The commit accepts only as many of its records as still fit."""

    __pydantic_config__ = DESCRIBED

    counter: str
    """Name of a counter (``model.counters``)."""
    key: tuple[str | int | None, ...]
    """A row of it; none means any value."""
    others: tuple[tuple[str | None, ...], ...] = ()
    """More rows that count together with it, each once, such as transfers to a storage and from it."""
    states: tuple[State, ...]
    """States whose records count."""
    limit: int
    """Most records in these states, or most parts of slots."""
    takes: int = 0
    """Parts of a slot that each claiming transfer takes (D8), or slots of each pilot (M5); 0: count records,
    not parts."""
    slot: int = BUNDLE
    """Parts of a slot of transfers."""
