"""Counters of the store: records of each kind and state, by the values of some of their columns."""

from .states import Kind

JOBS_BY_QUEUE = "jobs_by_queue"
JOBS_BY_TASK = "jobs_by_task"
TRANSFERS_BY_SHARE = "transfers_by_share"
TRANSFERS_BY_LINK = "transfers_by_link"
PILOTS_BY_QUEUE = "pilots_by_queue"
PILOTS_BY_SITE = "pilots_by_site"
"""Pilots by site and by the slots that each has: limits of sites bound these (M5, M8)."""

MATCHES_BY_SITE = "matches_by_site"
"""Jobs matched since an advertisement, by site and the advertisement's number: no state of records tells it.
A claim of it takes nothing any more where the site has advertised anew, whatever its limit (M5)."""

COUNTERS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    JOBS_BY_QUEUE: ("job", ("queue", "share")),
    JOBS_BY_TASK: ("job", ("task",)),
    TRANSFERS_BY_SHARE: ("transfer", ("share", "size_class")),
    TRANSFERS_BY_LINK: ("transfer", ("source", "destination", "direction")),
    PILOTS_BY_QUEUE: ("pilot", ("queue",)),
    PILOTS_BY_SITE: ("pilot", ("site", "slots")),
}
"""The kind that each counter counts, and its key: one row for each value of the key's columns and state."""
