"""The condition of a queue at one time, for people who ask why nothing starts there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.records.federation import Queue, Storage
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.storage_spaces import FreeSpace
from pilotage.model.records.unified_queues import PilotLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCondition:
    """A queue with its jobs and pilots by state, at ``time``. All times are in s since 1970.

    ``last_pilot`` is when a pilot last called, ``last_start`` when a job last started. ``errors`` are from
    the newest pilots that failed before they called, newest first. ``tried_at`` is when one pilot probes it
    (P6), ``changed`` when the queue's declaration changed within a day. ``waiting_since`` is when the oldest
    pilot that waits at the site was made. ``problem`` is the reason why no pilot can be submitted from here
    at all. ``pilot_limits`` bound its live pilots. ``last_pilot`` and ``last_start`` cover all queues that
    count together with it (B2). ``breakers`` are the circuit breakers of the queue, its nodes (F2) and its
    storage (F4), ``space`` is its free space (B18). ``restriction`` has who drains or has closed it, and why;
    empty: no operator.
    """

    time: float
    queue: Queue
    storage: Storage
    jobs: Mapping[JobState, int] = field(default_factory=dict)
    jobs_by_share: Mapping[str, Mapping[JobState, int]] = field(default_factory=dict)
    pilots: Mapping[PilotState, int] = field(default_factory=dict)
    pilot_limits: tuple[PilotLimit, ...] = ()
    last_pilot: float | None = None
    last_start: float | None = None
    errors: tuple[str, ...] = ()
    tried_at: float | None = None
    changed: float | None = None
    waiting_since: float | None = None
    problem: str = ""
    breakers: tuple[CircuitBreaker, ...] = ()
    space: FreeSpace | None = None
    restriction: str = ""
