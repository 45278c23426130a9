"""A world: all that a decision reads, the time and the random seed included, as one frozen document."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from .federation import Federation
from .identity import Identity
from .observations import DeliverySighting, PilotSighting, PilotSubmission
from .states import JobState
from .work import (
    Checksum,
    Count,
    File,
    FileName,
    FileSize,
    Job,
    Megabytes,
    OutputName,
    Pilot,
    PilotKind,
    Replica,
    Seconds,
    Task,
    Transfer,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """Jobs at a queue, of a share, in a state."""

    queue: str
    share: str
    state: JobState
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCount:
    """Jobs of a task in a state."""

    task: int
    state: JobState
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCount:
    """Live transfers between two storages (B6, B7)."""

    source: str
    destination: str
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """What was last seen of a queue: points in time, batch workers, mean disk I/O in kB/s per core."""

    queue: str
    last_pilot: float | None = None
    last_start: float | None = None
    batch_workers: int = 0
    disk_io: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueue:
    """Activated jobs with the same requirements at a queue (P1); ``priority`` is the highest among them."""

    queue: str
    requirements: str
    jobs: int
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRequest:
    """What a pilot has to offer: cores, memory in MB, walltime left in s, and the most jobs it would take."""

    pilot: int
    queue: str
    kind: PilotKind
    owner: Identity
    cores: int
    memory: float
    walltime: float
    max_jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file that an attempt left in its scratch area at the queue's storage."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: OutputName
    size: FileSize
    checksum: Checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a pilot says of one attempt: times in s; the most memory (``max_rss``) and work directory in MB.

    ``error`` names the failure. ``max_workdir`` is what the payload added to its directory. ``lost_inputs``
    are those that are missing at the queue's storage, or have another size or checksum there.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    job: Count
    attempt: Count
    state: Literal["starting", "running", "done", "failed"]
    error: Annotated[str, Field(max_length=4000)] = ""
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    cpu_seconds: Seconds = 0
    wall_seconds: Seconds = 0
    max_rss: Megabytes = 0
    max_workdir: Megabytes = 0
    outputs: tuple[Output, ...] = ()
    lost_inputs: tuple[FileName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """What the last attempt of a job used: times in s, the most memory and work directory in MB.

    The work directory counts what the payload added, outputs included; 0 is not reported.
    """

    job: int
    cpu_seconds: float = 0
    wall_seconds: float = 0
    max_rss: float = 0
    max_workdir: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A step's snapshot holds what that step reads; a saved world holds all of it.

    ``tasks`` has every task that a job here belongs to; ``files`` and ``replicas`` have the inputs and
    outputs of the jobs and the files of the transfers here.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    time: float
    seed: int
    federation: Federation
    tasks: tuple[Task, ...] = ()
    jobs: tuple[Job, ...] = ()
    files: tuple[File, ...] = ()
    replicas: tuple[Replica, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    pilots: tuple[Pilot, ...] = ()
    task_queues: tuple[TaskQueue, ...] = ()
    job_counts: tuple[JobCount, ...] = ()
    task_counts: tuple[TaskCount, ...] = ()
    link_counts: tuple[LinkCount, ...] = ()
    queue_reports: tuple[QueueReport, ...] = ()
    usages: tuple[JobUsage, ...] = ()
    requests: tuple[MatchRequest, ...] = ()
    reports: tuple[Report, ...] = ()
    submissions: tuple[PilotSubmission, ...] = ()
    sightings: tuple[PilotSighting, ...] = ()
    deliveries: tuple[DeliverySighting, ...] = ()
