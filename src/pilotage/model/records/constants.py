"""The constants of every policy, under their published names: parts of the federation document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

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

from .spec import Binding, LiveWork


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerageConstants:
    """The production brokerage's published constants, lower case."""

    __pydantic_config__ = CLOSED

    nqueued_sat_cap: Positive = 150
    """Most files queued on the link from a queue's storage to the nucleus (B6)."""
    nqueued_nuc_cap_for_jobs: Positive = 10_000
    """Most files on their way to the nucleus from elsewhere (B7)."""
    io_intensity_cutoff: NonNegative = 200
    """kB/s of I/O above which a task's missing input is bounded (B11)."""
    size_cutoff_to_move_input: NonNegative = 10
    """GB of missing input that such a task may have at a queue, at most (B11)."""
    num_cutoff_to_move_input: Positive = 100
    """Missing input files that such a task may have at a queue, at most (B11)."""
    input_moves: Literal["bounded", "sooner"] = "sooner"
    """``bounded`` holds B11 as long as any queue is left; ``sooner`` waives it where the queues that hold the
    input are full, and for those to which it moves before the last job would start there (B11)."""
    max_diskio_default: NonNegative | None = None
    """kB/s of disk I/O per core that a queue without ``max_disk_io`` bears; none: no limit (B12)."""
    storage_min_free: NonNegative | None = None
    """GB of which the queue's storage must have more free (B18). None: 200, but no more than a tenth of what
    the storage tells that it has in all."""
    storage_space_period: Day = 600
    """s from one question to a storage for its free space to the next; after three of them without an answer
    the number of the federation counts (B18)."""
    transferring_limit: Positive = 2000
    """Most transferring jobs of a queue that declares no limit of its own (B24)."""
    memory_compensation: Annotated[float, Field(ge=0.001, le=1000), FINITE] = 0.9
    """Fraction of the memory asked for that a queue must have (B15)."""
    nw_threshold: NonNegative = 1.7
    """Least network weight of a queue for urgent tasks (B27)."""
    nw_weight_multiplier: NonNegative = 1
    """Factor on ``nw_threshold`` (B27)."""
    nqueue_limit_site: Positive = 20
    """Jobs of a global share that a queue may always have waiting, whatever runs there (B36)."""
    nqueue_limit_site_by_share: Mapping[str, Positive] = field(default_factory=dict)
    """The same number of jobs for single global shares, by name (B36)."""
    max_candidates: Positive = 10
    """Queues that remain candidates, the best by weight (B37)."""
    pending_time: Seconds = 3600
    """s until a job that no queue takes is brokered again (B37)."""
    match_period: Day = 300
    """s from one match-making cycle to the next (M7)."""
    advertise_period: Day = 300
    """s from one advertisement of a site to the next; after three of them it matches nothing (M2)."""
    high_priority: Literal["nucleus", "prefer"] = "nucleus"
    """``nucleus`` keeps scouts and work of priority 800 there; with ``prefer`` it weighs more (B8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingConstants:
    """Constants of transfer shares (D1 to D11)."""

    __pydantic_config__ = CLOSED

    share_by: Literal["none", "user", "vo", "group", "role"] = "vo"
    """The part of the submitter's identity that a transfer's share goes by; ``none`` is one share (D1)."""
    base_priorities: Mapping[str, Annotated[Whole, Field(ge=1, le=100)]] = field(default_factory=dict)
    """Base priorities of shares by name, 1 to 100 (D2)."""
    default_priority: Annotated[Whole, Field(ge=1, le=100)] = 50
    """Base priority of every other share, 1 to 100 (D2)."""
    preparing_slots: Slots = 20
    """Transfers that are prepared at the same time (D8)."""
    delivery_slots: Slots = 40
    """Transfers that are delivered at the same time (D8)."""
    finishing_slots: Slots = 20
    """Transfers that are finished at the same time (D8)."""
    files_per_slot: Annotated[Whole, Field(ge=1, le=1000)] = BUNDLE
    """Files of at most 1 MB that share a slot, one after another; 1: each has a slot of its own, as in the
    published text (D8)."""
    max_prepared: Slots = 200
    """Transfers that are prepared, or being so, and wait for their delivery (D11)."""
    highest_pass: Annotated[Whole, Field(ge=0, le=100_000)] = 3
    """Transfers of the highest priority of all that wait which may pass ``max_prepared`` (D11)."""
    max_emergency: Annotated[Whole, Field(ge=0, le=100_000)] = 5
    """Emergency slots of each queue at the same time, at most one a share (D5)."""
    emergency_after: Seconds = 300
    """s without any slot given after which a share that was served before may take an emergency slot; one
    that came after the last was given takes it at once (D5)."""
    sub_shares: bool = True
    """Whether downloads and uploads are shares of their own (D6)."""
    max_attempts: Positive = 5
    """Attempts of a transfer before it fails."""
    retry_delay: Seconds = 10
    """s before a second attempt from the same source; twice as long before each further one."""
    delivery_timeout: Seconds = 600
    """s without progress after which a delivery is given up."""
    failing_files: Positive = 3
    """Files that fail to be delivered in a row, through no fault of theirs, before their storage, or what is
    moved between two, rests (F4)."""
    storage_rest: Seconds = 60
    """s of the first rest; twice as long each time that the delivery which tries fails too, an hour at most
    (F4)."""
    copies_kept: Seconds = 1_209_600
    """s that a copy which Pilotage made is kept after its last use, where nobody wants it."""
    copies_quotas: Mapping[str, NonNegative] = field(default_factory=dict)
    """GB that such copies of a scope's files may take at each storage, by scope, which is a VO's name."""
    cleaning_period: Day = 3600
    """s between two looks at the copies."""
    ageing_timeout: Seconds = 3600
    """s that a transfer waits before its priority grows (D7)."""
    ageing_period: Annotated[float, Field(ge=0.001, le=1e10), FINITE] = 300
    """s after which the priority of an aged transfer grows by 1 (D7)."""

    def storage_rest_after(self, rests: int) -> float:
        """Seconds for which a storage rests after so many rests (F4)."""
        return longer_each_time(self.storage_rest, rests + 1)


LONGEST_REST = 3600.0
"""Seconds after which a queue where pilots fail, or a storage, is tried again at the latest (P6, F4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitPool:
    """Workers that hand pilots to computing elements; a full pool passes to the next (P5)."""

    __pydantic_config__ = CLOSED

    min_threads_in_pool: Annotated[Whole, Field(ge=0, le=1000)] = 1
    """Workers that stay when nothing is to be submitted."""
    max_threads_in_pool: Annotated[Whole, Field(ge=1, le=1000)] = 8
    """Most workers."""
    total_threads_in_pool: Slots = 1000
    """Most submissions under way and waiting; one takes all pilots that a pass has for a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericIdentity:
    """The owner of generic pilots for the work of a VO (P7)."""

    __pydantic_config__ = CLOSED

    name: Name = "generic"
    """Name of the user."""
    group: str = ""
    """Group in the VO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorConstants:
    """The director's constants (P2 to P8, P12)."""

    __pydantic_config__ = CLOSED

    policy: Literal["taskqueue", "balanced"] = "taskqueue"
    """``taskqueue`` draws the number of pilots by the published formula (P2 to P4); ``balanced`` asks for as
    many as are missing, ``pilots_per_iteration`` at most (P12)."""
    period: Day = 60.0
    """s between two iterations of the director, however often it is woken (P2)."""
    pilots_per_iteration: Annotated[Whole, Field(ge=1, le=100_000)] = 40
    """Pilots per priority and per job are this number over the sums of both (P2)."""
    lowest_cpu_boost: Annotated[float, Field(ge=0, le=1e9), FINITE] = 7200
    """s of CPU time at its queue below which a task queue is boosted no further (P3)."""
    max_cpu: Annotated[float, Field(ge=0, le=1e9), FINITE] = 1_080_000
    """s of CPU time of the longest task queues, which get no boost: 12.5 days (P3)."""
    extra_pilot_fraction: Annotated[float, Field(ge=0, le=1000), FINITE] = 0.2
    """Pilots beyond the waiting jobs of a task queue, as a fraction of these (P4)."""
    extra_pilots: Annotated[Whole, Field(ge=0, le=1_000_000)] = 4
    """Pilots beyond those, as a number (P4)."""
    max_pilot_waiting_hours: NonNegative = 6
    """Hours that a submitted pilot may wait at its site (P4)."""
    submit_pools: Annotated[Mapping[Name, SubmitPool], Field(max_length=100)] = field(
        default_factory=lambda: {"default": SubmitPool()}
    )
    """Submit pools by name (P5)."""
    default_submit_pools: Annotated[tuple[Name, ...], Field(min_length=1)] = ("default",)
    """Pools for tasks that name none (P5)."""
    private_pilot_fraction: Fraction = 0.5
    """Fraction of private pilots where a queue's work allows both kinds (P7)."""
    private_pilot_fraction_by_vo: Mapping[str, Fraction] = field(default_factory=dict)
    """The same for the work of single VOs (P7)."""
    generic_identity: Mapping[str, GenericIdentity] = field(default_factory=dict)
    """Whom generic pilots for the work of a VO belong to, by VO; others belong to ``generic`` (P7)."""
    failing_pause: Seconds = 60
    """s that a server of a queue is left alone whose last pilots failed before they called home; twice as
    long each time, an hour at most; then one pilot tries (P6)."""
    empty_pause: Seconds = 60
    """s that ``balanced`` leaves a queue alone whose last pilots ended without work; likewise (P12)."""

    def rest(self, failures: int) -> float:
        """Seconds for which a queue rests after so many failures in a row (P6)."""
        return longer_each_time(self.failing_pause, failures)


def longer_each_time(pause: float, times: int) -> float:
    """Seconds of rest: the pause doubles with each time, up to an hour (P6, F4)."""
    # The exponent is cut: thousands of failures would overflow a float.
    return min(pause * 2.0 ** min(times - 1, 10), LONGEST_REST)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutConstants:
    """Limits on the time that jobs and pilots stay in a state, in s (rules T).

    Jobs of priority 800 and above are held to the ``_high`` limits where these are shorter, to those of
    activated and starting jobs only where a queue's last start is older than ``last_start``.
    """

    __pydantic_config__ = CLOSED

    pending: Seconds = 3600
    """s in state pending, where the brokerage set no time of its own."""
    defined: Seconds = 4 * 3600
    """s in state defined: published, without effect, as every pass of the brokerage looks at it."""
    assigned: Seconds = 12 * 3600
    """s in state assigned, waiting for inputs."""
    throttled: Seconds = 7 * 86400
    """s in state throttled, beyond a quota of live jobs."""
    activated: Seconds = 2 * 86400
    """s in state activated, waiting for a pilot."""
    sent: Seconds = 1800
    """s in state sent, before the pilot says that it has the job."""
    starting: Seconds = 2 * 86400
    """s in state starting."""
    running: Seconds = 21 * 86400
    """s in state running."""
    holding: Seconds = 2 * 86400
    """s in state holding."""
    transferring: Seconds = 6 * 86400
    """s in state transferring (``transtimelo``)."""
    heartbeat: Seconds = 7200
    """s after which a pilot that does not report is lost, and its jobs with it."""
    heartbeat_by_workflow: Mapping[str, Seconds] = field(default_factory=dict)
    """The same in s for the jobs of a workflow, by its name (``heartbeat_timeout_<workflow>``)."""
    pilot_created: Seconds = 300
    """s after which a pilot that was never submitted is given up."""
    last_start: Seconds = 2 * 3600
    """s without a start at a queue after which its urgent jobs are held to the ``_high`` limits."""
    activated_high: Seconds = 4 * 3600
    """s in state activated, at high priority."""
    starting_high: Seconds = 4 * 3600
    """s in state starting, at high priority."""
    holding_high: Seconds = 3 * 3600
    """s in state holding, at high priority."""
    transferring_high: Seconds = 2 * 86400
    """s in state transferring, at high priority (``transtimehi``)."""
    fast_rebro_threshold_nqnr_ratio: NonNegative = 3
    """Queued jobs a running one that a queue may keep of a global share."""
    fast_rebro_threshold_nqueue_frac: Fraction = 0.3
    """Fraction of a global share's queued jobs that a queue may keep."""
    fast_rebro_threshold_nqueue: Mapping[str, Number] = field(default_factory=dict)
    """Queued jobs that a queue may keep, by global share; of shares not named, nothing moves fast."""
    fast_rebro_wait: Seconds = 3600
    """s that a job stays at a queue before fast rebrokerage may move it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoutConstants:
    """Constants for judging scouts, and for estimates from what they used."""

    __pydantic_config__ = CLOSED

    success: Fraction = 0.5
    """Fraction of a task's scouts that must finish."""
    margin: Annotated[float, Field(ge=1, le=1000), FINITE] = 1.2
    """Factor on the most that any scout used."""
    memory_step: Positive = 100
    """MB to a multiple of which estimates of memory are rounded up, so that like tasks share task queues
    (P1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConstants:
    """Constants of the guards against black holes (F2) and broken tasks (F3)."""

    __pydantic_config__ = CLOSED

    fast: Seconds = 120
    """s within which a payload fails fast (F2)."""
    in_a_row: Positive = 5
    """Jobs of a task that fail fast in a row, at a queue or node, before it is closed to them (F2)."""
    pilots: Fraction = 0.2
    """Fraction of a queue's pilots that must have had such jobs before all of it rests (F2)."""
    rest: Seconds = 1800
    """s of the first rest; twice as long each time that the job that tries fails fast too (F2)."""
    longest_rest: Seconds = 8 * 3600
    """s of the longest rest (F2)."""
    same: Positive = 10
    """Attempts of a task that fail, all in the same way, before it is stopped; none may have ended well, and
    not at one or two queues alone where others have jobs of it. Of scouts as many as there are, where that is
    less, but three (F3)."""

    @property
    def fewest(self) -> int:
        """Attempts that may stop a task, at the least: those of scouts (F3)."""
        return min(self.same, 3)

    def rest_after(self, rests: int) -> float:
        """Seconds for which a place rests after so many rests."""
        return min(self.rest * 2.0 ** min(rests, 20), self.longest_rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingConstants:
    """Constants of binding: whose jobs may be borrowed, and for what gain (E1, E2)."""

    __pydantic_config__ = CLOSED

    default: Binding = "elastic"
    """The binding of tasks, VOs and plugins that name none (E1)."""
    by_vo: Mapping[str, Binding] = field(default_factory=dict)
    """The same by VO (E1)."""
    least_gain: Seconds = 300
    """s that a borrowed job must end sooner, at the least (E2)."""
    run_part: Fraction = 0.1
    """Fraction of its run by which it must end sooner besides (E2)."""
    pilots_elsewhere: Annotated[float, Field(ge=0, le=100), FINITE] = 1.0
    """Pilots that may wait at other candidates of waiting jobs, for each of these that may leave (E4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConstants:
    """Constants of loops and pilots: periods, and the size of a pass."""

    __pydantic_config__ = CLOSED

    period: Day = 5.0
    """s between two passes of a loop that nothing wakes."""
    batch: Annotated[Whole, Field(ge=1, le=1_000_000)] = 5000
    """Most records of one kind that a pass reads."""
    heartbeat: Day = 60.0
    """s between two reports of a pilot."""
    pilot_idle: Annotated[float, Field(ge=0, le=86_400), FINITE] = 30.0
    """s that a pilot without work stays, at the least."""
    pilot_idle_most: Annotated[float, Field(ge=0, le=86_400), FINITE] = 3600.0
    """s that it stays at most, where a new pilot would wait longer than ``pilot_idle`` in its batch system
    (E5); 0: it never stays longer than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConstants:
    """Retention of the logs of attempts and pilots: time, and compressed size.

    The oldest go first. What is beyond a bound goes within a minute.
    """

    __pydantic_config__ = CLOSED

    retention: Seconds = 14 * 86400
    """s that a log is kept."""
    by_user: Positive = 200
    """MB of one user of a VO."""
    by_vo: Positive = 2000
    """MB of one VO."""
    total: Positive = 10_000
    """MB in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConstants:
    """Limits on unfinished work: jobs beyond those of live jobs are throttled, the rest is refused."""

    __pydantic_config__ = CLOSED

    tasks_by_user: Positive = 10_000
    """Tasks of one user of a VO."""
    jobs_by_user: Positive = 2_000_000
    """Live jobs of one user of a VO: those beyond are throttled until others end."""
    jobs_by_group: Positive = 20_000_000
    """Live jobs of one group of a VO: those beyond are throttled until others end."""
    most_jobs_by_user: Positive = 10_000_000
    """Jobs of a user's tasks, throttled or still to be made, too; submissions beyond are refused."""
    files_by_user: Positive = 2_000_000
    """Input files of these tasks, counted for each task."""
    tasks_by_vo: Positive = 100_000
    """Tasks of one VO."""
    jobs_by_vo: Positive = 20_000_000
    """Live jobs of one VO: those beyond are throttled until others end."""
    most_jobs_by_vo: Positive = 100_000_000
    """Jobs of a VO's tasks, throttled or still to be made, too; submissions beyond are refused."""
    files_by_vo: Positive = 20_000_000
    """Input files of these tasks, counted for each task."""

    @property
    def of_user(self) -> LiveWork:
        """The most that one user may have."""
        return LiveWork(tasks=self.tasks_by_user, jobs=self.most_jobs_by_user, files=self.files_by_user)

    @property
    def of_vo(self) -> LiveWork:
        """The most that one VO may have."""
        return LiveWork(tasks=self.tasks_by_vo, jobs=self.most_jobs_by_vo, files=self.files_by_vo)
