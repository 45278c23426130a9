"""A world: all that a decision reads, the time and the random seed included, as one frozen document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.borrowing import BorrowableLine, Borrowing, Candidacy
from pilotage.model.records.data import CopiesSize, Copy
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import Federation
from pilotage.model.records.matching import MatchRequest, PriorityLevel
from pilotage.model.records.observations import (
    DeliverySighting,
    ListMatch,
    PilotSighting,
    PilotSubmission,
    PoolReport,
    PublicationSighting,
    ServerReport,
    SilentServer,
    SpaceSighting,
)
from pilotage.model.records.publications import Publication
from pilotage.model.records.spec import OwnerJobs
from pilotage.model.records.states import JobState
from pilotage.model.records.storage_rests import FailedDelivery, StorageRest, storage_rests
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
    Megabytes,
    NonNegative,
    OutputPath,
    Seconds,
    Whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """Jobs at a queue, of a share, in a state."""

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
    """Jobs of a task in a state."""

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
    """How many of them bring outputs (B7); none: not known, all count."""


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
    batch_workers: int = 0
    """Pilots running and submitted (B30)."""
    running_pilots: int = 0
    """Pilots that have called home and not ended."""
    disk_io: float | None = None
    """Mean disk I/O of the jobs that run, in kB/s per core; 0: none runs; none: not reported (B12)."""
    mean_run: float | None = None
    """Mean s that payloads took which ended there lately; none: not measured (E2)."""
    activated_since: float | None = None
    """When the oldest activated job became that, in s since 1970; none: not known, or no matter where one
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
    """What the jobs have in common, as ``Requirements.text``."""
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
    """A storage that failed an attempt, through no fault of the file (F4)."""

    __pydantic_config__ = CLOSED

    file: FileName
    """The name of the file that it did not give or take."""
    source: Annotated[str, Field(max_length=200)] = ""
    """Its name where the file is read from afar; empty: the queue's own."""
    written: bool = False
    """Whether the file is an output."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A pilot's report on one attempt."""

    __pydantic_config__ = CLOSED

    job: Count
    """The job."""
    attempt: Count
    """The attempt."""
    state: Literal["starting", "running", "done", "failed"]
    """What became of it."""
    error: Annotated[str, Field(max_length=4000)] = ""
    """Why it failed."""
    exit_code: Annotated[Whole, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """Exit code of the payload; negative is a signal."""
    cpu_seconds: Seconds = 0
    """s of CPU time used."""
    wall_seconds: Seconds = 0
    """s since the payload started."""
    max_rss: Megabytes = 0
    """Most memory used at a time, in MB."""
    max_workdir: Megabytes = 0
    """Most that the payload added to its directory, in MB."""
    disk_io: NonNegative | None = None
    """Disk I/O in kB/s per core, of late while it runs, the mean at its end; none: not measured (B12)."""
    outputs: Annotated[tuple[Output, ...], Field(max_length=100_000)] = ()
    """Files stored in the attempt's scratch area."""
    lost_inputs: Annotated[tuple[FileName, ...], Field(max_length=100_000)] = ()
    """Inputs that are missing at the queue's storage, or differ there in size or checksum."""
    read_from: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=100)] = ()
    """Storages elsewhere from which inputs were read."""
    storage_fault: StorageFault | None = None
    """The storage that it failed by (F4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """Resources that the last attempt of a job used; 0 is not reported."""

    __pydantic_config__ = DESCRIBED

    job: int
    """The job."""
    cpu_seconds: float = 0
    """s of CPU time."""
    wall_seconds: float = 0
    """s of walltime."""
    max_rss: float = 0
    """Most memory at a time, in MB."""
    max_workdir: float = 0
    """Most that the payload added to its directory, outputs included, in MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A pilot's call: what it has, and what became of some of it."""

    __pydantic_config__ = CLOSED

    pilot: int
    """The pilot."""
    holding: tuple[tuple[int, int], ...] = ()
    """Every attempt that it has: job and attempt."""
    reports: tuple[Report, ...] = ()
    """Its reports, in order."""

    @property
    def named(self) -> set[tuple[int, int]]:
        """All attempts that it speaks of."""
        return {*self.holding, *[(report.job, report.attempt) for report in self.reports]}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A step's snapshot, which holds what that step reads; a saved world holds all of it."""

    __pydantic_config__ = LARGE

    time: float
    """The moment that decisions are made at, in s since 1970."""
    seed: int
    """What random choices are drawn with."""
    federation: Federation
    """The federation in force."""
    queues_changed: Mapping[str, float] = field(default_factory=dict)
    """When queues were last declared otherwise than before, of the last day, in s since 1970 (P6)."""
    tasks: tuple[Task, ...] = ()
    """Every task that a job here belongs to."""
    jobs: tuple[Job, ...] = ()
    """Jobs."""
    ahead: tuple[Job, ...] = ()
    """Jobs that wait for the next match-making cycle and have a higher priority than some of these (M7)."""
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
    """Activated jobs by their requirements and priority, of which pilots are given (P13); empty: as the jobs
    here tell."""
    job_counts: tuple[JobCount, ...] = ()
    """Jobs by queue, share and state."""
    task_counts: tuple[TaskCount, ...] = ()
    """Jobs by task and state."""
    link_counts: tuple[LinkCount, ...] = ()
    """Live transfers by link."""
    queue_reports: tuple[QueueReport, ...] = ()
    """What was last seen of queues."""
    failures: tuple[Failure, ...] = ()
    """Failed attempts that speak against a place or a task (F2, F3)."""
    failed_deliveries: tuple[FailedDelivery, ...] = ()
    """Deliveries that failed in a row through a storage (F4)."""
    storage_spaces: tuple[StorageSpace, ...] = ()
    """What storages told of their free space (B18)."""
    space_sightings: tuple[SpaceSighting, ...] = ()
    """What they tell now, and is not recorded yet."""
    advertisements: tuple[Advertisement, ...] = ()
    """What sites tell of themselves, and what was handed to them since (M2, M5)."""
    candidacies: tuple[Candidacy, ...] = ()
    """Queues whose pilots may take jobs that wait elsewhere, by choice (E1)."""
    borrowable_lines: tuple[BorrowableLine, ...] = ()
    """Waiting jobs that pilots of other queues may take, by choice and queue (E4)."""
    borrowings: tuple[Borrowing, ...] = ()
    """Jobs that pilots took from other queues, have, and read from afar (E3)."""
    usages: tuple[JobUsage, ...] = ()
    """What jobs used."""
    requests: tuple[MatchRequest, ...] = ()
    """Pilots that ask for jobs."""
    live_jobs: tuple[OwnerJobs, ...] = ()
    """Live jobs by owner; empty where no quota of them is near (T)."""
    heartbeats: tuple[Heartbeat, ...] = ()
    """What pilots say of their jobs."""
    submissions: tuple[PilotSubmission, ...] = ()
    """What became of pilots that were submitted."""
    sightings: tuple[PilotSighting, ...] = ()
    """What computing elements say of pilots."""
    server_reports: tuple[ServerReport, ...] = ()
    """What servers tell of their batch systems (P6)."""
    list_matches: tuple[ListMatch, ...] = ()
    """What servers answered of resources for pilots (P8)."""
    silent_servers: tuple[SilentServer, ...] = ()
    """Servers that did not answer that (P8)."""
    pool_reports: tuple[PoolReport, ...] = ()
    """How full the submit pools are (P5)."""
    iterated: float | None = None
    """When the director's last iteration began, in s since 1970; none: there was none (P2)."""
    cleaned: float | None = None
    """When copies were looked at last, to remove those that nobody wants, in s since 1970; none: never."""
    copies: tuple[Copy, ...] = ()
    """Copies that Pilotage made, those first that came first."""
    copies_sizes: tuple[CopiesSize, ...] = ()
    """Bytes of all of them by storage and scope."""
    unawaited: tuple[int, ...] = ()
    """Queued downloads that no job waits for any more, of those that have been queued for a minute (D2)."""
    lapsed: tuple[int, ...] = ()
    """Tasks whose lease is over: their submitter has fallen silent."""
    deliveries: tuple[DeliverySighting, ...] = ()
    """What movers say of transfers."""
    publications: tuple[Publication, ...] = ()
    """Outputs to be registered in catalogues that others keep, and those of the same tasks that failed."""
    published: tuple[PublicationSighting, ...] = ()
    """What became of those whose catalogues were asked."""
    unable: tuple[UnableWay, ...] = ()
    """Kinds of storages between which the process that decides can move nothing: it leaves that to others."""
    unable_queues: Mapping[str, str] = field(default_factory=dict)
    """Queues for which the process that decides can submit no pilots, lacking a package, and why."""
    server: str = ""
    """The process that decides, by the name that transfers which it delivers bear; empty: it has none."""
    servers_gone: tuple[str, ...] = ()
    """Processes that deliver no more, since they have ended."""

    @property
    def storage_rests(self) -> tuple[StorageRest, ...]:
        """Storages that rest, or rested and are to be tried (F4)."""
        return storage_rests(self.failed_deliveries, self.federation.staging, self.time)

    @property
    def free_spaces(self) -> dict[str, FreeSpace]:
        """The free space of each storage that counts now, measured or declared, by name (B18)."""
        return free_spaces(self.federation, self.storage_spaces, self.time)
