"""A world: everything that a decision reads, including time and random seed, as one frozen document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, LiftedBreaker
from pilotage.model.circuit_breakers.storages import FailedDelivery, storage_breakers
from pilotage.model.records.advertisements import Advertisement, HeldPlaces
from pilotage.model.records.borrowing import BorrowableLine, Borrowing, Candidacy
from pilotage.model.records.chains import Stage
from pilotage.model.records.data import CopiesSize, Copy
from pilotage.model.records.failure_kinds import FailureKind
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import Federation
from pilotage.model.records.matching import MatchRequest, PriorityLevel
from pilotage.model.records.measured import Usage
from pilotage.model.records.notifications import (
    Notification,
    NotificationCount,
    NotificationLimits,
    NotificationSighting,
    RecentMessages,
)
from pilotage.model.records.observations import (
    DeliverySighting,
    ListMatch,
    PilotSighting,
    PilotSubmission,
    PoolReport,
    PublicationSighting,
    ServerReport,
    SpaceSighting,
    UnusableCredential,
    WaitingResults,
)
from pilotage.model.records.publications import Publication
from pilotage.model.records.servers import Absence
from pilotage.model.records.spec import OwnerJobs
from pilotage.model.records.states import JobState
from pilotage.model.records.storage_spaces import FreeSpace, StorageSpace, free_spaces
from pilotage.model.records.unable_ways import UnableWay
from pilotage.model.records.work import File, Job, Pilot, Replica, Task, Transfer
from pilotage.model.values.quick import quickly_made
from pilotage.model.values.types import (
    CLOSED,
    DESCRIBED,
    LARGE,
    Checksum,
    Count,
    FileName,
    FileSize,
    NonNegative,
    OutputPath,
    Whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """Number of jobs at a queue, of a share, in a state."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    share: str
    """The global share."""
    state: JobState
    """The state."""
    jobs: int
    """How many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCount:
    """Number of jobs of a task in a state."""

    __pydantic_config__ = DESCRIBED

    task: int
    """The task."""
    state: JobState
    """The state."""
    jobs: int
    """How many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCount:
    """Live transfers between two storages (B6, B7)."""

    __pydantic_config__ = DESCRIBED

    source: str
    """The storage that files are read from."""
    destination: str
    """The storage that they are written to."""
    files: int
    """How many."""
    uploads: int | None = None
    """How many of them carry outputs (B7); none: unknown, all count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """Latest observations of a queue."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    last_pilot: float | None = None
    """When a pilot last called, in s since 1970."""
    last_start: float | None = None
    """When a payload last started, in s since 1970."""
    first_submission: float | None = None
    """When the first pilot of the last day was submitted, in s since 1970; none: no pilot was, or one has
    called (B26)."""
    calls_elsewhere: bool = False
    """Whether as many pilots have called that were submitted to other queues since then (B26)."""
    batch_workers: int = 0
    """Pilots running and submitted (B30)."""
    running_pilots: int = 0
    """Pilots that have called home and have not ended."""
    disk_io: float | None = None
    """Mean disk I/O of the running jobs, in kB/s per core; 0: none runs; none: not reported (B12)."""
    mean_run: float | None = None
    """Mean s of payloads that ended there recently; none: not measured (E2)."""
    activated_since: float | None = None
    """When the oldest activated job became so, in s since 1970; none: unknown, or irrelevant because one
    started within the last hour (B9)."""
    pilots_possible: bool | None = None
    """Whether this system can start pilots there now; none: not known (B26)."""
    pilots_problem: str = ""
    """Why it cannot (B26)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueue:
    """Activated jobs with the same requirements at a queue (P1)."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    requirements: str
    """The common properties of the jobs, as ``Requirements.text``."""
    jobs: int
    """Jobs that wait for a pilot."""
    priority: int
    """The highest priority among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file that an attempt left in its scratch area at the queue's storage."""

    __pydantic_config__ = CLOSED

    name: OutputPath
    """Its path in the job's directory."""
    size: FileSize
    """Bytes."""
    checksum: Checksum
    """``adler32:`` and the digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFault:
    """A storage that failed an attempt. The file is not to blame (F4)."""

    __pydantic_config__ = CLOSED

    file: FileName
    """The name of the file."""
    source: Annotated[str, Field(max_length=200)] = ""
    """The storage's name if the file is read remotely; empty: the queue's own."""
    written: bool = False
    """Whether the file is an output."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Usage):
    """A pilot's report on one attempt."""

    __pydantic_config__ = CLOSED

    job: Count
    """The job."""
    attempt: Count
    """The attempt."""
    state: Literal["starting", "running", "done", "failed"]
    """The state of the attempt."""
    error: Annotated[str, Field(max_length=4000)] = ""
    """Why it failed."""
    exit_code: Annotated[Whole, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """Exit code of the payload; negative is a signal."""
    disk_io: NonNegative | None = None
    """Disk I/O in kB/s per core: the recent rate while it runs, the mean at its end; none: not measured
    (B12)."""
    outputs: Annotated[tuple[Output, ...], Field(max_length=100_000)] = ()
    """Files stored in the attempt's scratch area."""
    lost_inputs: Annotated[tuple[FileName, ...], Field(max_length=100_000)] = ()
    """Inputs that are missing at the queue's storage, or have another size or checksum there."""
    read_from: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=100)] = ()
    """Remote storages from which inputs were read."""
    storage_fault: StorageFault | None = None
    """The storage that failed it (F4)."""
    kind: FailureKind = "payload"
    """How it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage(Usage):
    """Resources that the last attempt of a job used."""

    __pydantic_config__ = DESCRIBED

    job: int
    """The job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A pilot's call: the attempts that it holds, and reports on some of them."""

    __pydantic_config__ = CLOSED

    pilot: int
    """The pilot."""
    holding: tuple[tuple[int, int], ...] = ()
    """Every attempt that it holds: job and attempt."""
    reports: tuple[Report, ...] = ()
    """Its reports, in order."""
    heard: float | None = None
    """The time of the newest answer that it knew when it called, in s since 1970; None: not reported."""

    @property
    def named(self) -> set[tuple[int, int]]:
        """Return all attempts that it mentions."""
        return {*self.holding, *[(report.job, report.attempt) for report in self.reports]}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A step's snapshot. It holds what that step reads; a saved world holds everything."""

    __pydantic_config__ = LARGE

    time: float
    """The time of the decisions, in s since 1970."""
    seed: int
    """The seed of random choices."""
    federation: Federation
    """The federation in force."""
    queues_changed: Mapping[str, float] = field(default_factory=dict)
    """When queues' declarations last changed, within the last day, in s since 1970 (P6)."""
    tasks: tuple[Task, ...] = ()
    """Every task with a job here."""
    stages: tuple[Stage, ...] = ()
    """Tasks that wait for other tasks, with the state of these."""
    jobs: tuple[Job, ...] = ()
    """Jobs."""
    ahead: tuple[Job, ...] = ()
    """Jobs that wait for the next match-making cycle with a higher priority than some of these (M7)."""
    files: tuple[File, ...] = ()
    """Inputs and outputs of the jobs, and files of the transfers."""
    replicas: tuple[Replica, ...] = ()
    """Their copies."""
    transfers: tuple[Transfer, ...] = ()
    """Transfers."""
    pilots: tuple[Pilot, ...] = ()
    """Pilots."""
    task_queues: tuple[TaskQueue, ...] = ()
    """Activated jobs by their requirements."""
    levels: tuple[PriorityLevel, ...] = ()
    """Activated jobs by their requirements and priority, to give to pilots (P13); empty: count ``jobs``."""
    job_counts: tuple[JobCount, ...] = ()
    """Jobs by queue, share and state."""
    task_counts: tuple[TaskCount, ...] = ()
    """Jobs by task and state."""
    link_counts: tuple[LinkCount, ...] = ()
    """Live transfers by link."""
    queue_reports: tuple[QueueReport, ...] = ()
    """The last reports on queues."""
    failures: tuple[Failure, ...] = ()
    """Failed attempts that count against a place or a task (F2, F3)."""
    failed_deliveries: tuple[FailedDelivery, ...] = ()
    """Consecutive failed deliveries of storages (F4)."""
    storage_spaces: tuple[StorageSpace, ...] = ()
    """Storages' reports of their free space (B18)."""
    space_sightings: tuple[SpaceSighting, ...] = ()
    """New reports that are not recorded yet."""
    advertisements: tuple[Advertisement, ...] = ()
    """Sites' advertisements, and the jobs handed to the sites since (M2, M5)."""
    held_places: tuple[HeldPlaces, ...] = ()
    """Places at sites that jobs of brokerages with cycles wait for (M7, M8)."""
    candidacies: tuple[Candidacy, ...] = ()
    """Queues whose pilots may take jobs that wait elsewhere, by choice (E1)."""
    borrowable_lines: tuple[BorrowableLine, ...] = ()
    """Waiting jobs that pilots of other queues may take, by choice and queue (E4)."""
    borrowings: tuple[Borrowing, ...] = ()
    """Jobs that pilots took from other queues, still have, and read remotely (E3)."""
    usages: tuple[JobUsage, ...] = ()
    """The resources that jobs used."""
    requests: tuple[MatchRequest, ...] = ()
    """Pilots that ask for jobs."""
    live_jobs: tuple[OwnerJobs, ...] = ()
    """Live jobs by owner; empty if none of their quotas is nearly full (T)."""
    absences: tuple[Absence, ...] = ()
    """Times without a server. They count for no time-out of jobs or silent pilots (T)."""
    waiting_results: tuple[WaitingResults, ...] = ()
    """Results of attempts that wait in sites' spools: their jobs stay with their pilots (T)."""
    heartbeats: tuple[Heartbeat, ...] = ()
    """Pilots' reports on their jobs."""
    submissions: tuple[PilotSubmission, ...] = ()
    """Outcomes of pilots' submissions."""
    sightings: tuple[PilotSighting, ...] = ()
    """Computing elements' reports on pilots."""
    server_reports: tuple[ServerReport, ...] = ()
    """Servers' reports on their batch systems (P6)."""
    list_matches: tuple[ListMatch, ...] = ()
    """Servers' answers about resources for pilots (P8)."""
    silent_servers: tuple[CircuitBreaker, ...] = ()
    """Circuit breakers of servers that did not answer such questions (P8)."""
    lacking_nodes: tuple[CircuitBreaker, ...] = ()
    """Circuit breakers of queues where pilots found nodes without what jobs need (P12, B14)."""
    lifted_breakers: tuple[LiftedBreaker, ...] = ()
    """Circuit breakers that an operator has lifted lately (P6, P8, P12)."""
    pool_reports: tuple[PoolReport, ...] = ()
    """Loads of the submit pools (P5)."""
    iterated: float | None = None
    """When the director's last iteration began, in s since 1970; none: there was none (P2)."""
    noted: float | None = None
    """When notifications were last made, in s since 1970; none: never."""
    cleaned: float | None = None
    """When copies were last checked for removal, in s since 1970; none: never."""
    copies: tuple[Copy, ...] = ()
    """Copies that Pilotage made, oldest first."""
    copies_sizes: tuple[CopiesSize, ...] = ()
    """Total bytes of copies by storage and scope."""
    unawaited: tuple[int, ...] = ()
    """Downloads queued for at least a minute that no job waits for (D2)."""
    lapsed: tuple[int, ...] = ()
    """Tasks whose lease is over because their submitter fell silent."""
    deliveries: tuple[DeliverySighting, ...] = ()
    """Movers' reports on transfers."""
    publications: tuple[Publication, ...] = ()
    """Outputs to register in external catalogues, and those of the same tasks that failed."""
    published: tuple[PublicationSighting, ...] = ()
    """Results of catalogues' calls."""
    notifications: tuple[Notification, ...] = ()
    """Notifications to send now, and those on their way."""
    notification_counts: tuple[NotificationCount, ...] = ()
    """Unsent notifications of the tasks' owners."""
    recent_messages: tuple[RecentMessages, ...] = ()
    """Messages of the last hour, of persons and to receivers that have unsent notifications."""
    notification_limits: NotificationLimits = field(default_factory=NotificationLimits)
    """Most messages within an hour, as this process's operator sets them."""
    notified: tuple[NotificationSighting, ...] = ()
    """Results of sending notifications."""
    unable: tuple[UnableWay, ...] = ()
    """Pairs of kinds of storages that this process cannot move files between. Other processes do."""
    unable_queues: Mapping[str, str] = field(default_factory=dict)
    """Queues to which this process cannot submit pilots because it lacks a package, and why."""
    unusable_credentials: tuple[UnusableCredential, ...] = ()
    """Credentials of persons and groups with which this process cannot submit pilots now (P9)."""
    server: str = ""
    """The deciding process, under its name in the transfers that it delivers; empty: it has none."""
    servers_gone: tuple[str, ...] = ()
    """Processes that have ended, and deliver nothing."""

    @property
    def storage_breakers(self) -> tuple[CircuitBreaker, ...]:
        """Circuit breakers of storages, open or half-open (F4)."""
        return storage_breakers(self.failed_deliveries, self.federation.staging, self.time)

    @property
    def free_spaces(self) -> dict[str, FreeSpace]:
        """Return the current free space of each storage, measured or declared, by name (B18)."""
        return free_spaces(self.federation, self.storage_spaces, self.time)
