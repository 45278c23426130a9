"""The federation: sites, storages, queues and links, and every policy constant, as one frozen document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from .work import Cores, Megabytes, Name, NonNegative, Seconds

QueueStatus = Literal["online", "standby", "offline", "brokeroff", "paused", "test"]
Blacklisting = Literal["read_lan", "write_lan", "read_wan", "write_wan"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1, le=10**9)]
Number = Annotated[int, Field(ge=0, le=10**9)]
Slots = Annotated[int, Field(ge=1, le=100_000)]
Day = Annotated[float, Field(gt=0, le=86_400)]
"""At most a day, in s: what happens once in so long at least."""

_CLOSED = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place with queues and storages. A nucleus gathers the outputs of tasks."""

    __pydantic_config__ = _CLOSED

    name: Name
    nucleus: bool = False
    kind: Literal["native", "forwarding"] = "native"
    max_jobs: Number | None = None
    max_submitting_jobs: Number | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where files lie: any URL that a mover can open. Space in GB; tape does not count as available (B33)."""

    __pydantic_config__ = _CLOSED

    name: Name
    site: Name
    url: Annotated[str, Field(pattern=r"^[a-z][a-z0-9+]*://")]
    free: NonNegative = 1_000_000
    tape: bool = False
    blacklisted: tuple[Blacklisting, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputingElement:
    """How pilots reach a queue. ``max_pilots`` bounds how many live there at once, waiting or running.

    ``pilot_slots`` is the number of payloads one pilot runs side by side; its options belong to its kind.
    """

    __pydantic_config__ = _CLOSED

    kind: Name = "process"
    submit_pool: Name = "default"
    max_pilots: Positive = 10
    pilot_slots: Slots = 1
    pilot_walltime: Seconds = 172_800
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Processors or accelerators of a queue's nodes: for each attribute the values it has (B14).

    ``excl`` among them takes only tasks that ask for one of them; an empty value or ``any`` accepts all. An
    attribute that is left out has nothing that could be asked for.
    """

    __pydantic_config__ = _CLOSED

    type: Literal["cpu", "gpu"]
    arch: tuple[str, ...] = ()
    vendor: tuple[str, ...] = ()
    instr: tuple[str, ...] = ()
    model: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A release or container image that a queue offers; ``sources`` are the image's full paths (B14)."""

    __pydantic_config__ = _CLOSED

    cmtconfig: str = ""
    container_name: str = ""
    project: str = ""
    release: str = ""
    sources: tuple[str, ...] = ()
    tag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue of a site. 0 or none is no limit, except ``cores``, where 0 takes any.

    Where ``vos`` are named, only tasks of these may use it (F1).
    Memory and ``max_workdir`` in MB, walltimes in s, ``core_power`` in HS23 per core, ``max_disk_io`` in
    kB/s per core. ``releases`` holds ``ANY``, which skips all of B14; ``AUTO``, which goes by the fields
    below it; or the releases there are, as ``version`` or ``project-version``. ``event_service`` is the kind
    of jobs taken: ``std`` no event service, ``es`` nothing else, ``eshigh`` that of priority 800 (B23).
    """

    __pydantic_config__ = _CLOSED

    name: Name
    site: Name
    storage: Name
    status: QueueStatus = "online"
    parent: str = ""
    cores: Cores = 1
    core_power: Annotated[float, Field(gt=0, le=1e9)] = 10.0
    min_memory: Megabytes = 0
    max_memory: Megabytes = 0
    max_workdir: Megabytes = 0
    min_walltime: Seconds = 0
    max_walltime: Seconds = 0
    max_disk_io: NonNegative | None = None
    direct_access: bool = False
    connectivity: Annotated[str, Field(pattern=r"^(full|http|none)(#(IPv4|IPv6)?)?$")] = "full"
    fairshare_policy: str = ""
    event_service: Literal["std", "es", "eshigh", "all"] = "all"
    transferring_limit: Number | None = None
    disable_reassign: bool = False
    pledged_cpu: Annotated[float, Field(ge=-1e12, le=1e12)] | None = None
    num_slots: Number | None = None
    vos: tuple[Name, ...] = ()
    releases: tuple[str, ...] = ("ANY",)
    cmtconfigs: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    cvmfs: tuple[str, ...] = ()
    architectures: tuple[Hardware, ...] = ()
    tags: tuple[Tag, ...] = ()
    computing_element: ComputingElement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """From one site to another: closeness 0 (best) to 11, -1 blocked; throughputs in MB/s by window."""

    __pydantic_config__ = _CLOSED

    source: Name
    destination: Name
    closeness: Annotated[float, Field(ge=-1, le=11)] | None = None
    throughput_1h: NonNegative | None = None
    throughput_1d: NonNegative | None = None
    throughput_1w: NonNegative | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalShare:
    """A share of the federation: ``target``, against those of its siblings, is its part of its parent's.

    Shares without parent are siblings, whatever their VO: they divide the federation.
    """

    __pydantic_config__ = _CLOSED

    name: Name
    vo: str = ""
    parent: str = ""
    target: NonNegative = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerageConstants:
    """The production brokerage's published constants, lower case; sizes in GB, rates in kB/s.

    ``nqueue_limit_site_by_share`` is ``nqueue_limit_site`` for single global shares, by name.
    """

    __pydantic_config__ = _CLOSED

    nqueued_sat_cap: Positive = 150
    nqueued_nuc_cap_for_jobs: Positive = 10_000
    io_intensity_cutoff: NonNegative = 200
    size_cutoff_to_move_input: NonNegative = 10
    num_cutoff_to_move_input: Positive = 100
    max_diskio_default: NonNegative | None = None
    storage_min_free: NonNegative = 200
    transferring_limit: Positive = 2000
    memory_compensation: Annotated[float, Field(gt=0, le=1000)] = 0.9
    nw_threshold: NonNegative = 1.7
    nw_weight_multiplier: NonNegative = 1
    nqueue_limit_site: Positive = 20
    nqueue_limit_site_by_share: Mapping[str, Positive] = field(default_factory=dict)
    max_candidates: Positive = 10
    pending_time: Seconds = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingConstants:
    """Transfer shares (D1 to D8): base priorities are 1..100, slots are counts, times in s."""

    __pydantic_config__ = _CLOSED

    share_by: Literal["none", "user", "vo", "group", "role"] = "vo"
    base_priorities: Mapping[str, Annotated[int, Field(ge=1, le=100)]] = field(default_factory=dict)
    default_priority: Annotated[int, Field(ge=1, le=100)] = 50
    delivery_slots: Slots = 40
    max_emergency: Annotated[int, Field(ge=0, le=100_000)] = 5
    sub_shares: bool = True
    max_attempts: Positive = 5
    retry_delay: Seconds = 10
    delivery_timeout: Seconds = 600
    ageing_timeout: Seconds = 3600
    ageing_period: Annotated[float, Field(ge=0.001, le=1e10)] = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorConstants:
    """The director's constants (P2 to P4, P7); ``lowest_cpu_boost`` in s, ``max_cpu`` in s (12.5 d).

    A queue whose last pilots all failed before they called home is left alone for ``failing_pause`` s, twice
    as long each time, an hour at most; then one pilot tries (P6).
    """

    __pydantic_config__ = _CLOSED

    pilots_per_iteration: Annotated[int, Field(ge=1, le=100_000)] = 40
    lowest_cpu_boost: Annotated[float, Field(ge=0, le=1e9)] = 7200
    max_cpu: Annotated[float, Field(ge=0, le=1e9)] = 1_080_000
    extra_pilot_fraction: Annotated[float, Field(ge=0, le=1000)] = 0.2
    extra_pilots: Annotated[int, Field(ge=0, le=1_000_000)] = 4
    max_pilot_waiting_hours: NonNegative = 6
    private_pilot_fraction: Fraction = 0.5
    failing_pause: Seconds = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutConstants:
    """How long a job may stay in a state, in s, and how long a pilot may be silent (rules T).

    Jobs of priority 800 and above are held to the ``_high`` limits where these are shorter, to those of
    activated and starting jobs only where a queue's last start is older than ``last_start``.
    """

    __pydantic_config__ = _CLOSED

    pending: Seconds = 3600
    defined: Seconds = 4 * 3600
    assigned: Seconds = 12 * 3600
    throttled: Seconds = 7 * 86400
    activated: Seconds = 2 * 86400
    sent: Seconds = 1800
    starting: Seconds = 2 * 86400
    running: Seconds = 21 * 86400
    holding: Seconds = 2 * 86400
    transferring: Seconds = 6 * 86400
    heartbeat: Seconds = 7200
    pilot_created: Seconds = 300
    last_start: Seconds = 2 * 3600
    activated_high: Seconds = 4 * 3600
    starting_high: Seconds = 4 * 3600
    holding_high: Seconds = 3 * 3600
    transferring_high: Seconds = 2 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoutConstants:
    """How scouts are judged: the fraction that must end well; estimates are ``margin`` times the most seen.

    That of a job's memory is rounded up to whole ``memory_step`` MB, so that like tasks share task
    queues (P1).
    """

    __pydantic_config__ = _CLOSED

    success: Fraction = 0.5
    margin: Annotated[float, Field(ge=1, le=1000)] = 1.2
    memory_step: Positive = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConstants:
    """How often the loops look, in s, and how much one pass takes."""

    __pydantic_config__ = _CLOSED

    period: Day = 5.0
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 5000
    heartbeat: Day = 60.0
    pilot_idle: Annotated[float, Field(ge=0, le=86_400)] = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """All that is declared about a federation, with every constant of every policy.

    ``plugins`` names the brokerage plugin of a VO where it is not ``production``; ``plugin_options`` are the
    options of plugins by name. ``container_sources`` has the full paths of container images by their name:
    the ``ALL`` entry of what is published of software (B14).
    """

    __pydantic_config__ = _CLOSED

    name: Name
    sites: Annotated[tuple[Site, ...], Field(min_length=1)]
    storages: Annotated[tuple[Storage, ...], Field(min_length=1)]
    queues: Annotated[tuple[Queue, ...], Field(min_length=1)]
    links: tuple[Link, ...] = ()
    shares: tuple[GlobalShare, ...] = (GlobalShare(name="default"),)
    plugins: Mapping[str, str] = field(default_factory=dict)
    plugin_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    container_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    brokerage: BrokerageConstants = BrokerageConstants()
    staging: StagingConstants = StagingConstants()
    director: DirectorConstants = DirectorConstants()
    timeouts: TimeoutConstants = TimeoutConstants()
    scouting: ScoutConstants = ScoutConstants()
    loops: LoopConstants = LoopConstants()
