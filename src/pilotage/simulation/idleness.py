"""Slots that are empty while jobs wait, and why, over the course of a simulation."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import JobState
from pilotage.model.records.unified_queues import PilotLimit, pilot_limits
from pilotage.simulation.replay import WAITING
from pilotage.simulation.sites import SiteSlots, VirtualSite
from pilotage.store.database.rows import raw_rows
from pilotage.store.jobs.counters import counts

SAMPLED_AFTER = 300.0
"""Seconds between two counts of empty slots. A count holds until the next."""

_c = counts.c
_JOBS = (
    select(_c.state, func.sum(_c.count))
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_(WAITING))
    .group_by(_c.state)
)


@dataclass(frozen=True, slots=True)
class Empty:
    """Empty slots while a job waits. Each slot counts once, for the first of these reasons."""

    pilot: int = 0
    """A pilot has it free, but gets no job."""
    inputs: int = 0
    """A pilot has it free, but inputs of jobs are still missing."""
    batch: int = 0
    """A pilot for it waits in the batch system."""
    unasked: int = 0
    """No pilot was requested for it."""


def empty(jobs: Mapping[JobState, int], sites: Iterable[SiteSlots]) -> Empty:
    """Return why slots are empty while jobs wait. At most as many slots count as jobs wait."""
    waiting = sum(jobs.values())
    # Start with zeros, so that there are three columns even without a site.
    columns = zip((0, 0, 0), *(site.empty for site in sites), strict=True)
    idle, queued, unasked = (sum(column) for column in columns)
    at_hand = min(idle, waiting)
    batch = min(queued, waiting - at_hand)
    inputs = min(jobs.get(JobState.ASSIGNED, 0), max(0, at_hand - jobs.get(JobState.ACTIVATED, 0)))
    return Empty(at_hand - inputs, inputs, batch, min(unasked, waiting - at_hand - batch))


@dataclass(slots=True)
class Idleness:
    """Slot seconds that were empty while jobs waited, by reason (the names of ``Empty``)."""

    seconds: Counter[str] = field(default_factory=Counter)
    _last: Empty = Empty()
    _since: float | None = None

    def is_due(self, now: float) -> bool:
        """Return whether it is time for another count, at a time in s since 1970."""
        return self._since is None or now - self._since >= SAMPLED_AFTER

    def note(self, now: float, slots: Empty) -> None:
        """Record a new count. The previous count held until now."""
        for name in Empty.__dataclass_fields__:
            self.seconds[name] += getattr(self._last, name) * (now - (self._since or now))
        self._last, self._since = slots, now


def waiting(connection: Connection) -> dict[JobState, int]:
    """Return how many jobs have not started, by state."""
    return {JobState(state): int(jobs) for state, jobs in raw_rows(connection, _JOBS)}


def slots(federation: Federation, sites: Mapping[str, VirtualSite]) -> list[SiteSlots]:
    """Return the slots of each site that has queues."""
    limits, totals = pilot_limits(federation), Counter[str]()
    counted: set[PilotLimit] = set()
    for queue in federation.queues:
        # The last limit belongs to the unified queue, if there is one (B2).
        if queue.computing_element and (limit := limits[queue.name][-1]) not in counted:
            counted.add(limit)
            totals[queue.site] += limit.pilots * queue.computing_element.pilot_slots
    return [sites[name].slots(count) for name, count in totals.items()]
