"""Slots that stand empty while jobs wait, and the reasons, as a simulation goes on."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import JobState
from pilotage.store.database.sets import raw_rows
from pilotage.store.tables.counters import counts

from .replay import WAITING
from .sites import SiteSlots, VirtualSite

SAMPLED_AFTER = 300.0
"""Seconds after which empty slots are counted again; what is found holds until then."""

_c = counts.c
_JOBS = (
    select(_c.state, func.sum(_c.count))
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_(WAITING))
    .group_by(_c.state)
)


@dataclass(frozen=True, slots=True)
class Empty:
    """Empty slots beside which a job waits, each counted once, for the first of these reasons."""

    pilot: int = 0
    """A pilot has it free, and gets nothing."""
    inputs: int = 0
    """A pilot has it free, while inputs of jobs are still to come."""
    batch: int = 0
    """A pilot for it waits in the batch system."""
    unasked: int = 0
    """No pilot was asked for."""


def empty(jobs: Mapping[JobState, int], sites: Iterable[SiteSlots]) -> Empty:
    """Say why slots are empty beside waiting jobs; no more of them count than jobs wait."""
    left = sum(jobs.values())
    # The first, so that there are three columns where there is no site.
    columns = zip((0, 0, 0), *(site.empty for site in sites), strict=True)
    idle, queued, unasked = (sum(column) for column in columns)
    at_hand = min(idle, left)
    batch = min(queued, left - at_hand)
    inputs = min(jobs.get(JobState.ASSIGNED, 0), max(0, at_hand - jobs.get(JobState.ACTIVATED, 0)))
    return Empty(at_hand - inputs, inputs, batch, min(unasked, left - at_hand - batch))


@dataclass(slots=True)
class Idleness:
    """Slot seconds that were empty beside waiting jobs, by reason (the names of :class:`Empty`)."""

    seconds: Counter[str] = field(default_factory=Counter)
    _last: Empty = Empty()
    _since: float | None = None

    def is_due(self, now: float) -> bool:
        """Tell whether slots are to be counted again at a time, in s since 1970."""
        return self._since is None or now - self._since >= SAMPLED_AFTER

    def note(self, now: float, found: Empty) -> None:
        """Note what is found now; what was found before held until now."""
        for name in Empty.__dataclass_fields__:
            self.seconds[name] += getattr(self._last, name) * (now - (self._since or now))
        self._last, self._since = found, now


def waiting(connection: Connection) -> dict[JobState, int]:
    """Jobs that have not started, by state."""
    return {JobState(state): int(jobs) for state, jobs in raw_rows(connection, _JOBS)}


def slots(federation: Federation, sites: Mapping[str, VirtualSite]) -> list[SiteSlots]:
    """Count the slots of each site that has queues."""
    most: Counter[str] = Counter()
    for queue in federation.queues:
        if queue.computing_element:
            most[queue.site] += queue.computing_element.max_pilots * queue.computing_element.pilot_slots
    return [sites[name].slots(count) for name, count in most.items()]
