"""The constants of every policy under their published names: parts of the federation document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.records.spec import Binding
from pilotage.model.values.identity import FIT, IdentityName
from pilotage.model.values.slot_parts import BUNDLE
from pilotage.model.values.types import (
    CLOSED,
    FINITE,
    Day,
    Fraction,
    Name,
    NonNegative,
    Number,
    Positive,
    Seconds,
    Slots,
    Whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitPool:
    """Workers that submit pilots to computing elements. A full pool passes them on to the next (P5)."""

    __pydantic_config__ = CLOSED

    min_threads_in_pool: Annotated[Whole, Field(ge=0, le=1000)] = 1
    """Workers that stay when there is nothing to submit."""
    max_threads_in_pool: Annotated[Whole, Field(ge=1, le=1000)] = 8
    """Most workers."""
    total_threads_in_pool: Slots = 1000
    """Most running and waiting submissions. One submission takes all pilots of a pass for a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericIdentity:
    """The owner of generic pilots for the work of a VO (P7)."""

    __pydantic_config__ = CLOSED

    name: Annotated[Name, FIT] = "generic"
    """Name of the user."""
    group: IdentityName = ""
    """Group in the VO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerageConstants:
    """The production brokerage's published constants, in lower case."""

    __pydantic_config__ = CLOSED

    nqueued_sat_cap: Positive = 150
    """Most files queued on the link from a queue's storage to the nucleus (B6)."""
    nqueued_nuc_cap_for_jobs: Positive = 10_000
    """Most files on their way to the nucleus from elsewhere (B7)."""
    io_intensity_cutoff: NonNegative = 200
    """kB/s of I/O above which a task's missing input is limited (B11)."""
    size_cutoff_to_move_input: NonNegative = 10
    """Most GB of missing input of such a task at a queue (B11)."""
    num_cutoff_to_move_input: Positive = 100
    """Most missing input files of such a task at a queue (B11)."""
    input_moves: Literal["bounded", "sooner"] = "bounded"
    """When I/O-intensive work may leave its input (B11). ``bounded``: only if no other queue is left.
    ``sooner``: also if the queues with the input are full, or if the input arrives elsewhere before the last
    job would start at its place."""
    max_diskio_default: NonNegative | None = None
    """Most kB/s of disk I/O per core at a queue without ``max_disk_io``; none: no limit (B12)."""
    storage_min_free: NonNegative | None = None
    """GB that must be free at a storage without a ``storage_min_free`` of its own (B18). None: 200."""
    storage_space_period: Day = 600
    """s between two questions to a storage about its free space. After three without an answer, the
    federation's number counts (B18)."""
    transferring_limit: Positive = 2000
    """Most transferring jobs of a queue without a limit of its own (B24)."""
    memory_compensation: Annotated[float, Field(ge=0.001, le=1000), FINITE] = 0.9
    """Fraction of the requested memory that a queue must have (B15)."""
    nw_threshold: NonNegative = 1.7
    """Least network weight of a queue for urgent tasks (B27)."""
    nw_weight_multiplier: NonNegative = 1
    """Factor on ``nw_threshold`` (B27)."""
    nqueue_limit_site: Positive = 20
    """Jobs of a global share that may always wait at a queue, whatever runs there (B36)."""
    nqueue_limit_site_by_share: Mapping[str, Positive] = field(default_factory=dict)
    """The same number for single global shares, by name (B36)."""
    max_candidates: Positive = 10
    """Number of queues that remain candidates, best by weight (B37)."""
    pending_time: Seconds = 3600
    """s until a job without a queue is brokered again (B37)."""
    match_period: Day = 300
    """s between two match-making cycles (M7)."""
    advertise_period: Day = 300
    """s between two advertisements of a site. After three of them without a new one, it matches nothing
    (M2)."""
    high_priority: Literal["nucleus", "prefer"] = "nucleus"
    """``nucleus`` keeps scouts and work of priority 800 there. ``prefer`` only gives it more weight (B8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingConstants:
    """Constants of transfer shares (D1 to D11)."""

    __pydantic_config__ = CLOSED

    share_by: Literal["none", "user", "vo", "group", "role"] = "vo"
    """The part of the submitter's identity that determines a transfer's share; ``none`` is one share (D1)."""
    base_priorities: Mapping[str, Annotated[Whole, Field(ge=1, le=100)]] = field(default_factory=dict)
    """Base priorities of shares by name, 1 to 100 (D2)."""
    default_priority: Annotated[Whole, Field(ge=1, le=100)] = 50
    """Base priority of every other share, 1 to 100 (D2)."""
    preparing_slots: Slots = 20
    """Transfers in preparation at the same time (D8)."""
    delivery_slots: Slots = 40
    """Transfers in delivery at the same time (D8)."""
    finishing_slots: Slots = 20
    """Transfers being finished at the same time (D8)."""
    files_per_slot: Annotated[Whole, Field(ge=1, le=1000)] = BUNDLE
    """Files of at most 1 MB that share a slot, one after another. 1: each has its own slot, as in the
    published text (D8)."""
    max_prepared: Slots = 200
    """Most transfers that are prepared, or in preparation, and wait for delivery (D11)."""
    highest_pass: Annotated[Whole, Field(ge=0, le=100_000)] = 3
    """Transfers with the highest priority of all waiting ones that may exceed ``max_prepared`` (D11)."""
    max_emergency: Annotated[Whole, Field(ge=0, le=100_000)] = 5
    """Most emergency slots of each queue at the same time, at most one per share (D5)."""
    emergency_after: Seconds = 300
    """s without a new slot after which a share served before may take an emergency slot. A share that came
    after the last new slot takes one at once (D5)."""
    sub_shares: bool = True
    """Whether downloads and uploads are separate shares (D6)."""
    max_attempts: Positive = 5
    """Attempts of a transfer before it fails."""
    retry_delay: Seconds = 10
    """s before a second attempt from the same source. Each further wait is twice as long."""
    delivery_timeout: Seconds = 600
    """s without progress after which a delivery is given up."""
    failing_files: Positive = 3
    """Files in a row that cannot be delivered, through no fault of theirs, before the circuit breaker of
    their storage, or of the way between two storages, opens (F4)."""
    storage_rest: Seconds = 60
    """s for which that circuit breaker is open first. The time doubles with each failed probe, up to an hour
    (F4)."""
    copies_kept: Seconds = 1_209_600
    """s for which an unwanted copy made by Pilotage stays after its last use."""
    copies_quotas: Mapping[str, NonNegative] = field(default_factory=dict)
    """Most GB of such copies of a scope's files at each storage, by scope, which is a VO's name."""
    cleaning_period: Day = 3600
    """s between two checks of the copies."""
    ageing_timeout: Seconds = 3600
    """s of waiting after which a transfer's priority grows (D7)."""
    ageing_period: Annotated[float, Field(ge=0.001, le=1e10), FINITE] = 300
    """s in which the priority of an aged transfer grows by 1 (D7)."""

    def open_for(self, openings: int) -> float:
        """Return how many s the circuit breaker of a storage is open, after so many openings (F4)."""
        return longer_each_time(self.storage_rest, openings + 1)


LONGEST_OPEN = 3600.0
"""Seconds after which a queue where pilots fail, or a storage, is probed at the latest (P6, F4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorConstants:
    """The director's constants (P2 to P8, P12)."""

    __pydantic_config__ = CLOSED

    policy: Literal["taskqueue", "balanced"] = "taskqueue"
    """``taskqueue`` draws the number of pilots by the published formula (P2 to P4). ``balanced`` requests
    as many as are missing, at most ``pilots_per_iteration`` (P12)."""
    period: Day = 60.0
    """s between two iterations of the director, however often it wakes up (P2)."""
    pilots_per_iteration: Annotated[Whole, Field(ge=1, le=100_000)] = 40
    """Pilots per priority and per job are this number over the sums of both (P2)."""
    lowest_cpu_boost: Annotated[float, Field(ge=0, le=1e9), FINITE] = 7200
    """s of CPU time at its queue below which a task queue gets no more boost (P3)."""
    max_cpu: Annotated[float, Field(ge=0, le=1e9), FINITE] = 1_080_000
    """s of CPU time of the longest task queues, which get no boost: 12.5 days (P3)."""
    extra_pilot_fraction: Annotated[float, Field(ge=0, le=1000), FINITE] = 0.2
    """Pilots beyond the waiting jobs of a task queue, as a fraction of these jobs (P4)."""
    extra_pilots: Annotated[Whole, Field(ge=0, le=1_000_000)] = 4
    """Further pilots beyond those, as a number (P4)."""
    max_pilot_waiting_hours: NonNegative = 6
    """Most hours that a submitted pilot may wait at its site (P4)."""
    missing_pilot_time: Seconds = 600
    """s for which no answer of a batch system lists a waiting pilot before the pilot counts as lost."""
    submit_pools: Annotated[Mapping[Name, SubmitPool], Field(max_length=100)] = field(
        default_factory=lambda: {"default": SubmitPool()}
    )
    """Submit pools by name (P5)."""
    default_submit_pools: Annotated[tuple[Name, ...], Field(min_length=1)] = ("default",)
    """Pools for tasks that name no pool (P5)."""
    private_pilot_fraction: Fraction = 0.5
    """Fraction of private pilots if a queue's work allows both kinds (P7)."""
    private_pilot_fraction_by_vo: Mapping[IdentityName, Fraction] = field(default_factory=dict)
    """The same for the work of single VOs (P7)."""
    generic_identity: Mapping[IdentityName, GenericIdentity] = field(default_factory=dict)
    """The owner of generic pilots for a VO's work, by VO. Others belong to ``generic`` (P7)."""
    failing_pause: Seconds = 60
    """s for which a server of a queue gets no pilots after its last ones failed before they called home. The
    time doubles with each failed probe, up to an hour. Then one pilot probes it (P6)."""
    work_per_slot: Seconds = 3600
    """s of waiting work that ``balanced`` counts on for each slot of a submitted pilot: shorter jobs share a
    slot, one after another, and each longer one gets a slot (P12)."""
    empty_pause: Seconds = 60
    """s for which ``balanced`` pauses a queue whose last pilots ended without work. It doubles in the same
    way (P12)."""

    def open_for(self, openings: int) -> float:
        """Return how many s the circuit breaker of a server is open, after so many openings (P6)."""
        return longer_each_time(self.failing_pause, openings + 1)


def longer_each_time(pause: float, times: int) -> float:
    """Return the s to wait: the pause doubles with each time, up to an hour (P6, F4)."""
    # The exponent is cut: thousands of failures would overflow a float.
    return min(pause * 2.0 ** min(times - 1, 10), LONGEST_OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutConstants:
    """Limits on the time that jobs and pilots spend in a state, in s (rules T).

    Jobs of priority 800 and above have the ``_high`` limits if these are shorter. For activated and starting
    jobs this holds only if a queue's last start is older than ``last_start``.
    """

    __pydantic_config__ = CLOSED

    pending: Seconds = 3600
    """s in state pending, if the brokerage set no time of its own."""
    held: Seconds = 30 * 86400
    """s in state held, because a person holds the task."""
    defined: Seconds = 4 * 3600
    """s in state defined: published, but without effect, because every pass of the brokerage looks at it."""
    assigned: Seconds = 12 * 3600
    """s in state assigned, waiting for inputs."""
    throttled: Seconds = 7 * 86400
    """s in state throttled, beyond a quota of live jobs."""
    activated: Seconds = 2 * 86400
    """s in state activated, waiting for a pilot."""
    sent: Seconds = 1800
    """s in state sent, before the pilot reports the job."""
    starting: Seconds = 2 * 86400
    """s in state starting."""
    running: Seconds = 21 * 86400
    """s in state running."""
    holding: Seconds = 2 * 86400
    """s in state holding."""
    transferring: Seconds = 6 * 86400
    """s in state transferring (``transtimelo``)."""
    heartbeat: Seconds = 7200
    """s after which a silent pilot counts as lost, with its jobs."""
    heartbeat_by_workflow: Mapping[str, Seconds] = field(default_factory=dict)
    """The same in s for the jobs of a workflow, by its name (``heartbeat_timeout_<workflow>``)."""
    closed_tunnel: Seconds = 12 * 3600
    """s for which a closed tunnel of a queue's pilots does not count as their silence."""
    pilot_created: Seconds = 300
    """s after which a pilot that was never submitted is given up."""
    last_start: Seconds = 2 * 3600
    """s without a start at a queue after which its urgent jobs have the ``_high`` limits."""
    activated_high: Seconds = 4 * 3600
    """s in state activated, at high priority."""
    starting_high: Seconds = 4 * 3600
    """s in state starting, at high priority."""
    holding_high: Seconds = 3 * 3600
    """s in state holding, at high priority."""
    transferring_high: Seconds = 2 * 86400
    """s in state transferring, at high priority (``transtimehi``)."""
    fast_rebro_threshold_nqnr_ratio: NonNegative = 3
    """Most queued jobs of a global share at a queue per running job."""
    fast_rebro_threshold_nqueue_frac: Fraction = 0.3
    """Largest fraction of a global share's queued jobs at one queue."""
    fast_rebro_threshold_nqueue: Mapping[str, Number] = field(default_factory=dict)
    """Most queued jobs at a queue, by global share. Jobs of other shares do not move fast."""
    fast_rebro_wait: Seconds = 3600
    """s that a job stays at a queue before fast rebrokerage may move it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoutConstants:
    """Constants for judging scouts, and for estimates from their usage."""

    __pydantic_config__ = CLOSED

    success: Fraction = 0.5
    """Fraction of a task's scouts that must finish."""
    margin: Annotated[float, Field(ge=1, le=1000), FINITE] = 1.2
    """Factor on the largest usage of any scout."""
    memory_step: Positive = 100
    """Memory estimates are rounded up to multiples of this many MB, so that similar tasks share task
    queues (P1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConstants:
    """Constants of the guards against black holes (F2) and broken tasks (F3)."""

    __pydantic_config__ = CLOSED

    fast: Seconds = 120
    """s within which a payload fails fast (F2)."""
    in_a_row: Positive = 5
    """Jobs of a task that fail fast in a row, at a queue or node, before it is closed (F2)."""
    pilots: Fraction = 0.2
    """Fraction of a queue's pilots that must have had such jobs before it is closed (F2)."""
    rest: Seconds = 1800
    """s for which a circuit breaker is open first. The time doubles with each probing job that fails fast too
    (F2)."""
    longest_rest: Seconds = 8 * 3600
    """s for which a circuit breaker is open at most (F2)."""
    storage_attempts: Positive = 20
    """Attempts of a job that storages failed and that do not count. Further ones count (F4)."""
    storage_time: Seconds = 86_400
    """s from the first of these to the last (F4)."""
    same: Positive = 10
    """Attempts of a task that fail in the same way before it is stopped. None may have succeeded, and they
    must not all be at one or two queues if others have jobs of it. For scouts: as many as there are if
    that is less, but at least three (F3)."""

    @property
    def fewest(self) -> int:
        """Return the fewest failed attempts of scouts that may stop a task (F3)."""
        return min(self.same, 3)

    def open_for(self, openings: int) -> float:
        """Return how many s the circuit breaker of a place is open, after so many openings (F2)."""
        return min(self.rest * 2.0 ** min(openings, 20), self.longest_rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingConstants:
    """Constants of binding: which jobs may be borrowed, and how much they must gain (E1, E2)."""

    __pydantic_config__ = CLOSED

    default: Binding = "elastic"
    """The binding of tasks, VOs and plugins that name none (E1)."""
    by_vo: Mapping[IdentityName, Binding] = field(default_factory=dict)
    """The same by VO (E1)."""
    least_gain: Seconds = 300
    """Least s by which a borrowed job must end sooner (E2)."""
    run_part: Fraction = 0.1
    """Fraction of its run by which it must also end sooner (E2)."""
    pilots_elsewhere: Annotated[float, Field(ge=0, le=100), FINITE] = 1.0
    """Pilots that may wait at other candidates, per waiting job that may leave its queue (E4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConstants:
    """Constants of loops and pilots: periods, and the size of a pass."""

    __pydantic_config__ = CLOSED

    period: Day = 5.0
    """s between two passes of a loop that nothing wakes up."""
    batch: Annotated[Whole, Field(ge=1, le=1_000_000)] = 5000
    """Most records of one kind that a pass reads."""
    heartbeat: Day = 60.0
    """s between two reports of a pilot."""
    pilot_idle: Annotated[float, Field(ge=0, le=86_400), FINITE] = 30.0
    """Least s that a pilot without work stays."""
    pilot_idle_most: Annotated[float, Field(ge=0, le=86_400), FINITE] = 3600.0
    """Most s that it stays if a new pilot would wait longer than ``pilot_idle`` in its batch system (E5);
    0: it never stays longer than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConstants:
    """Retention of logs of attempts and pilots, by time and compressed size.

    The oldest go first. Logs beyond a limit go within a minute.
    """

    __pydantic_config__ = CLOSED

    retention: Seconds = 14 * 86400
    """s that a log is kept."""
    by_user: Positive = 200
    """Most MB of one user of a VO."""
    by_vo: Positive = 2000
    """Most MB of one VO."""
    total: Positive = 10_000
    """Most MB in all."""
