"""The federation: sites, storages, queues and links, and every policy constant, as one frozen document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from pilotage.model.records.catalogues import ExternalCatalogue
from pilotage.model.records.computing_elements import ComputingElement, OwnerCredential, Server
from pilotage.model.records.constants import (
    BindingConstants,
    BrokerageConstants,
    DirectorConstants,
    GuardConstants,
    LogConstants,
    LoopConstants,
    ScoutConstants,
    StagingConstants,
    TimeoutConstants,
)
from pilotage.model.records.quotas import GlobalShare, QuotaConstants, ShareUseConstants
from pilotage.model.records.spec import DEFAULT_SHARE
from pilotage.model.values.identity import FIT, IdentityName
from pilotage.model.values.software import Hardware, Tag
from pilotage.model.values.types import (
    CLOSED,
    FINITE,
    FREE_NUMBERS,
    LARGE,
    Closeness,
    Cores,
    FileName,
    Megabytes,
    Name,
    NonNegative,
    Number,
    Options,
    Seconds,
    Slots,
)

__all__ = [
    "BindingConstants",
    "Blacklisting",
    "BrokerageConstants",
    "ComputingElement",
    "DirectorConstants",
    "Federation",
    "GlobalShare",
    "GuardConstants",
    "Hardware",
    "Link",
    "LogConstants",
    "LoopConstants",
    "OwnerCredential",
    "Queue",
    "QueueStatus",
    "QuotaConstants",
    "ScoutConstants",
    "Server",
    "ShareUseConstants",
    "Site",
    "StagingConstants",
    "Storage",
    "Tag",
    "TimeoutConstants",
    "TransferService",
]

QueueStatus = Literal["online", "standby", "offline", "brokeroff", "paused", "test", "draining"]
Blacklisting = Literal["read_lan", "write_lan", "read_wan", "write_wan"]
UNKNOWN_CORE_POWER = 10.0
"""HS23 per core of queues that do not declare it (B21)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place with queues and storages: a batch system and its disks (M1)."""

    __pydantic_config__ = CLOSED

    name: Name
    """Its name in queues, storages and links."""
    nucleus: bool = False
    """Whether it may gather the outputs of tasks."""
    max_jobs: Number | None = None
    """Most jobs over all its queues, from their match to their end, and most slots of live pilots; none:
    no limit (M5, M8)."""
    max_submitting_jobs: Number | None = None
    """Most of these jobs that no pilot runs yet, and most waiting pilots; none: no limit (M5, M8)."""
    max_pending_jobs: Number | None = None
    """The same limit, including other people's jobs that wait in its batch system; none: no limit (M6)."""
    throttle: Literal["matches", "current"] = "matches"
    """How its ad expresses ``max_jobs``: ``CurMatches < MaxJobs``, or with ``current`` the text's simple
    ``CurrentJobs < MaxJobs`` (M6)."""
    requirements: Annotated[str, Field(max_length=4000)] = ""
    """A further ClassAd expression that jobs must meet, such as ``TARGET.Owner != "guest"`` (M4, M6)."""
    attributes: Annotated[Mapping[str, Any], Field(max_length=200), FREE_NUMBERS] = field(
        default_factory=dict
    )
    """What operators add to its advertisement: numbers, texts, booleans and lists of these (M2)."""
    monitoring_url: Annotated[str, Field(max_length=2000)] = ""
    """Where payloads send their monitoring events: ``PILOTAGE_MONITORING_URL`` of their environment (M2)."""

    @property
    def is_limited(self) -> bool:
        """Return whether operators bound its jobs (M5)."""
        declared = (self.max_jobs, self.max_submitting_jobs, self.max_pending_jobs)
        return any(limit is not None for limit in declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferService:
    """A service that moves files between storages for us, such as an FTS server."""

    __pydantic_config__ = CLOSED

    kind: Name = "fts"
    """The adapter for it."""
    url: Annotated[str, Field(pattern=r"^https?://", max_length=2000)]
    """Its URL."""
    options: Options = field(default_factory=dict)
    """Options of the adapter, including files with credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A storage system with files below its URL."""

    __pydantic_config__ = CLOSED

    name: Name
    """Its name in queues and replicas."""
    site: Name
    """The site where it is."""
    url: Annotated[str, Field(pattern=r"^[a-z][a-z0-9+]*://")]
    """Any URL that a mover can open. Names of files are paths below it."""
    free: NonNegative | None = None
    """Free space in GB, used while the storage itself does not report it (B18). None: unknown, and enough."""
    storage_min_free: NonNegative | None = None
    """GB that must be free here for jobs to come (B18). None: the brokerage's number."""
    tape: bool = False
    """Whether it is tape, which does not count as available (B33)."""
    station: Annotated[str, Field(max_length=200)] = ""
    """The station that serves it: tasks choose sites by station. Empty: its site's name (M2, M3)."""
    scratch: bool = False
    """Whether it is scratch space, where nothing is kept: no nucleus gathers outputs there (B19)."""
    blacklisted: tuple[Blacklisting, ...] = ()
    """What is forbidden here now: reading or writing, locally (lan) or from other sites (wan) (B19)."""
    copies_quota: NonNegative | None = None
    """Most GB of copies that Pilotage makes there. Beyond it, unwanted copies go, longest unused first.
    None: only their age limits them."""
    transfer_slots: Slots | None = None
    """Most concurrent deliveries from it and to it; none: no limit of its own."""
    folders: Mapping[FileName, tuple[Name, ...]] = field(default_factory=dict)
    """VOs by folder. The longest folder around a path counts. Only people of its VOs may register and list
    the files there, or use them as input. Elsewhere only operators may. Empty: everybody may use any of the
    storage's files."""
    delivery_folders: Mapping[FileName, tuple[Name, ...]] = field(default_factory=dict)
    """VOs by folder, whose tasks may deliver outputs to paths of their choice in it, and replace files there.
    The longest folder around a path counts. A folder without VOs is open to everybody. Empty: none."""
    remote_reads: bool = False
    """Whether pilots of other sites may read from it themselves, for jobs that they borrow (E3). If it has
    a token, they get the current one."""
    options: Options = field(default_factory=dict)
    """Options of the mover for this kind of URL, including credentials."""
    transfer_service: TransferService | None = None
    """Brings files to it, and from it to storages without one of their own. None: Pilotage's own movers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue of a site. 0 or none means no limit, except for ``cores``, where 0 accepts any."""

    __pydantic_config__ = CLOSED

    name: Name
    """Its name in tasks."""
    site: Name
    """The site where it is."""
    storage: Name
    """The storage that its jobs read from and write to."""
    status: QueueStatus = "online"
    """What it accepts now: ``standby`` counts as online (B4); a paused queue keeps its jobs; one that is
    draining starts nothing, and its waiting jobs go elsewhere."""
    parent: str = ""
    """The unified queue behind this pseudo-queue. Its conditions hold here too, and its limits are shared
    (B2)."""
    cores: Cores = 1
    """Cores of a slot; 0 accepts any number (B13)."""
    gpus: Cores = 0
    """GPUs of a slot. If 0, a queue that publishes accelerators in ``architectures`` has one (B14)."""
    core_power: Annotated[float, Field(ge=0.001, le=1e9), FINITE] | None = None
    """HS23 per core; none means unknown, and counts as 10 (B21)."""
    min_memory: Megabytes = 0
    """Least MB that a job must request, for the whole slot (B15)."""
    max_memory: Megabytes = 0
    """Most MB of a job, for the whole slot (B15)."""
    max_workdir: Megabytes = 0
    """MB of work directory of a slot (B17)."""
    min_walltime: Seconds = 0
    """Least s of a job (B21)."""
    max_walltime: Seconds = 0
    """Most s of a job (B20, B21)."""
    max_disk_io: NonNegative | None = None
    """Most kB/s of disk I/O per core on its nodes (B12)."""
    direct_access: bool = False
    """Whether payloads can read inputs from the storage without a copy (B16)."""
    connectivity: Annotated[str, Field(pattern=r"^(full|http|none)(#(IPv4|IPv6)?)?$")] = "full"
    """What payloads can reach, and the IP stack (B22)."""
    fairshare_policy: str = ""
    """Comma list of ``type=``, ``group=``, ``gshare=``, ``priority<op>n`` with ``:n%``; 0 refuses (B10)."""
    event_service: Literal["std", "es", "eshigh", "all"] = "all"
    """``std`` accepts no event service, ``es`` nothing else; ``eshigh`` accepts ordinary work, and event
    service of priority 800 (B23)."""
    transferring_limit: Number | None = None
    """Most transferring jobs; none: the federation's (B24)."""
    disable_reassign: bool = False
    """Whether its jobs are exempt from time-outs (T)."""
    pledged_cpu: Annotated[float, Field(ge=-1e12, le=1e12), FINITE] | None = None
    """Pledged power in HS23. -1 marks an opportunistic queue, which accepts no urgent work (B8)."""
    num_slots: Number | None = None
    """Slots that it counts as having, whatever runs. Fast rebrokerage then leaves its jobs alone (B30, T).
    Without it, the slots of its own pilots, ``max_pilots`` × ``pilot_slots``, count while these call: all
    of them if one called in the last three hours, at most 20 if none ever did."""
    vos: tuple[Annotated[Name, FIT], ...] = ()
    """VOs whose tasks may use it; none: all (F1)."""

    @property
    def is_online(self) -> bool:
        """Return whether brokerages also place jobs there if their task does not name it (B4)."""
        return self.status in ("online", "standby")

    @property
    def gpus_of_slot(self) -> int:
        """Return the GPUs of a slot: as declared, else one if it publishes accelerators (B14)."""
        return self.gpus or int(any(item.type == "gpu" for item in self.architectures))

    @property
    def forwards(self) -> bool:
        """Return whether whole jobs are handed to another Pilotage, which chooses for itself (M1)."""
        return self.computing_element is not None and self.computing_element.kind == "pilotage"

    @property
    def own_slots(self) -> int:
        """Return the slots of all pilots that its computing element may have; 0 without one (B30)."""
        element = self.computing_element
        return element.max_pilots * element.pilot_slots if element else 0

    releases: tuple[str, ...] = ("ANY",)
    """``ANY`` offers all software; ``AUTO`` uses the fields below; otherwise releases, as ``version`` or
    ``project-version`` (B14)."""
    cmtconfigs: tuple[str, ...] = ()
    """Platforms that it runs (B14)."""
    containers: tuple[str, ...] = ()
    """Container images or prefixes of their names. ``any`` and ``/cvmfs`` accept all (B14)."""
    cvmfs: tuple[str, ...] = ()
    """Tags of the software repositories mounted (B14)."""
    architectures: tuple[Hardware, ...] = ()
    """Processors and accelerators of its nodes (B14)."""
    tags: tuple[Tag, ...] = ()
    """Releases and images installed (B14)."""
    computing_element: ComputingElement | None = None
    """How pilots are submitted to it; none: it gets no pilots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The network from one site to another (B5, B35)."""

    __pydantic_config__ = CLOSED

    source: Name
    """The site that files come from."""
    destination: Name
    """The site that files go to."""
    closeness: Closeness | None = None
    """0 (best) to 11; -1 means blocked (B5)."""
    throughput_1h: NonNegative | None = None
    """MB/s over the last hour."""
    throughput_1d: NonNegative | None = None
    """MB/s over the last day."""
    throughput_1w: NonNegative | None = None
    """MB/s over the last week."""
    transfer_slots: Slots | None = None
    """Most concurrent deliveries over it; none: no limit of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """The whole declaration of a federation, with every constant of every policy."""

    __pydantic_config__ = LARGE

    name: Name
    """The instance's name, which is part of its files' paths at storages. It cannot change while in force."""
    sites: Annotated[tuple[Site, ...], Field(min_length=1)]
    """Every site."""
    storages: Annotated[tuple[Storage, ...], Field(min_length=1)]
    """Every storage."""
    queues: Annotated[tuple[Queue, ...], Field(min_length=1)]
    """Every queue."""
    catalogues: tuple[ExternalCatalogue, ...] = ()
    """External catalogues of files."""
    links: tuple[Link, ...] = ()
    """Known properties of the network between sites."""
    shares: Annotated[tuple[GlobalShare, ...], Field(max_length=1000)] = (GlobalShare(name=DEFAULT_SHARE),)
    """The global shares."""
    plugins: Mapping[IdentityName, str] = field(default_factory=dict)
    """The brokerage plugin by VO; ``""`` is for every VO not named here; none: ``production``."""
    plugin_options: Mapping[str, Options] = field(default_factory=dict)
    """Options by brokerage plugin."""
    container_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Full paths of container images by name: the published ``ALL`` entry of software (B14)."""
    brokerage: BrokerageConstants = field(default_factory=BrokerageConstants)
    """Constants of the production brokerage."""
    staging: StagingConstants = field(default_factory=StagingConstants)
    """Constants of transfer shares."""
    director: DirectorConstants = field(default_factory=DirectorConstants)
    """Constants of the director."""
    binding: BindingConstants = field(default_factory=BindingConstants)
    """Whether jobs stay at the queue chosen for them, and for which gain they leave it."""
    timeouts: TimeoutConstants = field(default_factory=TimeoutConstants)
    """Time-outs."""
    scouting: ScoutConstants = field(default_factory=ScoutConstants)
    """Constants of scouting."""
    loops: LoopConstants = field(default_factory=LoopConstants)
    """Constants of the loops."""
    logs: LogConstants = field(default_factory=LogConstants)
    """How long logs stay, and how much of them."""
    guard: GuardConstants = field(default_factory=GuardConstants)
    """Constants of the guards against black holes and broken tasks."""
    share_use: ShareUseConstants = field(default_factory=ShareUseConstants)
    """Whether the targets of global shares follow use."""
    quotas: QuotaConstants = field(default_factory=QuotaConstants)
    """Most work of users and VOs."""
