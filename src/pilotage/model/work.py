"""What is worked on: tasks, jobs, files, transfers and pilots, as they stand and as they come into being."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from .identity import Identity
from .states import JobState, PilotState, TaskState, TransferState

JobKind = Literal["normal", "scout", "merge"]
Direction = Literal["download", "upload"]
PilotKind = Literal["generic", "private"]

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@+-]*$")]
FileName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=500,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@+=~-]*(/[A-Za-z0-9_][A-Za-z0-9_.:@+=~-]*)*$",
    ),
]
OutputName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$")]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Cores = Annotated[int, Field(ge=0, le=1_000_000)]
FileSize = Annotated[int, Field(ge=0, le=10**15)]
"""Bytes of one file, so few that no sum of sizes leaves 64 bits."""

Megabytes = Annotated[float, Field(ge=0, le=1e9)]
Seconds = Annotated[float, Field(ge=0, le=1e10)]
NonNegative = Annotated[float, Field(ge=0, le=1e12)]
Checksum = Annotated[str, Field(pattern=r"^(adler32:[0-9a-f]{8}|sha256:[0-9a-f]{64}|)$")]

MOST_JOBS = 100_000
"""Jobs of one task, which come into being together."""

CPU_SEGMENTS = (600, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 1080000)
"""CPU time is rounded up to one of these, in seconds, so that like jobs share a task queue (P1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that a task reads: bytes, checksum, and the storages that hold it under its name."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: FileName
    size: FileSize
    checksum: Checksum = ""
    replicas: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPattern:
    """All files that match ``glob`` on the named storages; sizes and checksums are read when submitted."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    storages: Annotated[tuple[Name, ...], Field(min_length=1)]
    glob: Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """The job that makes one output of many: it reads every output of the task's other jobs."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    outputs: Annotated[tuple[OutputName, ...], Field(min_length=1)]
    ram: Megabytes | None = None
    walltime: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What a user asks for. Times in s, memory and disk in MB; ``ram`` is per core unless ``ram_unit`` is MB.

    ``cpu_time`` is in HS23 seconds an event, ``out_disk`` in MB an event, ``cpu_efficiency`` a fraction,
    ``io_intensity`` and ``disk_io`` in kB/s. ``walltime`` is used as given where ``cpu_time`` is 0 (B21). A
    ``t1_weight`` of -1 keeps normal jobs at the nucleus (B25). ``architecture`` is
    ``platform@base#arch-vendor-instr&vendor-model``, every part optional (B14). ``min_events`` above 0 makes
    the number of a job's events dynamic, from there to ``events_per_job``. Without a ``command`` the payload
    is empty and succeeds at once. ``scouts`` is the number of jobs that run first, to measure what the others
    need; 0 is none, and so it is where there is no command, or there are no more jobs than twice as many.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Name
    share: Name = "default"
    priority: Annotated[int, Field(ge=1, le=100_000)] = 500
    transfer_priority: Annotated[int, Field(ge=1, le=100)] = 50
    nucleus: str = ""
    t1_weight: Literal[-1, 0] = 0
    brokerage: str = ""
    queues: tuple[Name, ...] = ()

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    payload_files: Mapping[OutputName, str] = field(default_factory=dict)
    inputs: tuple[InputFile | InputPattern, ...] = ()
    outputs: tuple[OutputName, ...] = ()
    merge: MergeSpec | None = None
    files_per_job: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    jobs: Annotated[int, Field(ge=1, le=MOST_JOBS)] = 1
    events_per_job: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    scouts: Annotated[int, Field(ge=0, le=1000)] = 10

    cores: Cores = 1
    max_cores: Cores = 0
    ram: Megabytes = 0
    ram_unit: Literal["MBPerCore", "MB"] = "MBPerCore"
    base_ram: Megabytes = 0
    cpu_time: NonNegative = 0
    cpu_efficiency: Annotated[float, Field(gt=0, le=1)] = 0.9
    base_time: Seconds = 0
    walltime: Seconds = 0
    work_disk: Megabytes = 0
    out_disk: Megabytes = 0
    io_intensity: NonNegative = 0
    disk_io: NonNegative = 0
    direct_access_only: bool = False
    ip_connectivity: str = ""
    architecture: str = ""
    sw_project: str = ""
    sw_version: str = ""
    nightlies: bool = False
    container_name: str = ""
    only_tags: bool = False
    event_service: bool = False
    min_events: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    processing_type: str = ""
    working_group: str = ""
    workflow: str = ""
    private_pilots: bool = False
    submit_pools: tuple[Name, ...] = ()

    def for_job(self, kind: JobKind) -> "TaskSpec":
        """The same, with what a merge job asks for where the job is one."""
        if kind != "merge" or self.merge is None:
            return self
        merge = self.merge
        return replace(
            self,
            command=merge.command,
            outputs=merge.outputs,
            cores=1,
            ram=self.ram if merge.ram is None else merge.ram,
            walltime=self.walltime if merge.walltime is None else merge.walltime,
            cpu_time=self.cpu_time if merge.walltime is None else 0,
            event_service=False,
            min_events=0,
        )

    @property
    def least_events(self) -> int:
        """The smallest number of events that a job may have."""
        return self.min_events or self.events_per_job

    @property
    def memory(self) -> float:
        """MB that a job may use, all its cores together."""
        return self.base_ram + self.ram * self.ram_units

    @property
    def ram_units(self) -> int:
        """How many times a job needs ``ram``: once for each core, unless it is given for all of them."""
        return 1 if self.ram_unit == "MB" else max(1, self.cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task about to be, its input patterns already resolved to files."""

    spec: TaskSpec
    owner: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a task's scouts needed, with a margin, in units of ``TaskSpec``; ``memory`` is for a whole job.

    ``base_time`` is the time that CPU time does not explain. None where no scout reported it: then what was
    asked for stands. ``finished`` scouts were measured; others of the task's jobs do the work of those that
    ``failed``, so these do not count as failed jobs of the task.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    finished: int
    failed: int = 0
    cpu_time: float | None = None
    base_time: float | None = None
    walltime: float | None = None
    memory: float | None = None
    work_disk: float | None = None
    out_disk: float | None = None

    def replaced(self, spec: TaskSpec) -> TaskSpec:
        """The same with every estimate that was measured in place of the one asked for."""
        names = ("cpu_time", "base_time", "walltime", "work_disk", "out_disk")
        found = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.memory is not None:
            base = min(spec.base_ram, self.memory)
            found |= {"base_ram": base, "ram": (self.memory - base) / spec.ram_units}
        return replace(spec, **found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it stands: ``spec`` is what was asked for, ``measured`` what its scouts needed."""

    id: int
    spec: TaskSpec
    owner: Identity
    state: TaskState
    created: float
    since: float
    error: str = ""
    measured: Measured | None = None

    def expected(self, kind: JobKind) -> TaskSpec:
        """What its jobs of a kind ask for, with measured estimates where there are any.

        A merge job runs another command, of which nothing was measured.
        """
        if kind == "merge" or self.measured is None:
            return self.spec.for_job(kind)
        return self.measured.replaced(self.spec)

    def limit(self, kind: JobKind, asked: float, most: float) -> float:
        """Where a payload is ended that goes beyond, of memory or walltime; 0 is never.

        What was asked for, else ``most``, what the queue gives; 0 is none of either. Of a task with scouts
        it is what the queue gives: a scout is to show what it needs, and what a few scouts needed is an
        estimate, which a job may exceed. Merge jobs were not measured.
        """
        if kind == "merge" or (kind == "normal" and self.measured is None):
            return asked or most
        return max(asked, most) if most else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What the jobs of one task queue have in common (P1): ``cpu_time`` in s of one core, memory in MB."""

    vo: str
    group: str
    owner: str
    cores: int
    memory: float
    cpu_time: float
    private: bool = False

    @classmethod
    def of(cls, spec: TaskSpec, owner: Identity) -> "Requirements":
        """The requirements of a task's jobs, with the CPU time rounded up to a segment."""
        asked = spec.walltime or spec.base_time + spec.cpu_time * spec.events_per_job / spec.cpu_efficiency
        segment = next((segment for segment in CPU_SEGMENTS if asked <= segment), CPU_SEGMENTS[-1])
        return cls(
            vo=owner.vo,
            group=owner.group,
            owner=owner.name,
            cores=max(1, spec.cores),
            memory=spec.memory,
            cpu_time=float(segment),
            private=spec.private_pilots,
        )

    @property
    def text(self) -> str:
        """The same for the same requirements: how a task queue is named within a site's queue."""
        values = [self.vo, self.group, self.owner, self.cores, self.memory, self.cpu_time, self.private]
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> "Requirements":
        """The reverse of :attr:`text`."""
        vo, group, owner, cores, memory, cpu_time, private = json.loads(text)
        return cls(
            vo=vo,
            group=group,
            owner=owner,
            cores=cores,
            memory=memory,
            cpu_time=cpu_time,
            private=private,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job about to be."""

    task: int
    kind: JobKind
    share: str
    priority: int
    requirements: str
    inputs: tuple[str, ...] = ()
    events: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it stands. ``since`` is the time of its last transition; ``queue`` is empty until brokered."""

    id: int
    task: int
    kind: JobKind
    share: str
    priority: int
    requirements: str
    state: JobState
    attempt: int
    since: float
    created: float
    queue: str = ""
    pilot: int | None = None
    inputs: tuple[str, ...] = ()
    events: int = 1
    wake_at: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file by its logical name. ``job`` is the job that made it, None for an input from outside."""

    name: str
    size: int
    checksum: str
    task: int | None = None
    job: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A copy of a file at a storage, under the file's name."""

    file: str
    storage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTransfer:
    """A transfer about to be. There is never more than one live transfer of a file to a storage.

    ``source_path``, where given, is where the bytes lie at ``source`` instead of under the file's name:
    what a job's attempt left in its scratch area.
    """

    file: str
    source: str
    destination: str
    direction: Direction
    share: str
    priority: int
    source_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A transfer (DTR) as it stands: ``priority`` is the DTR priority of D2, ``wake_at`` the next try."""

    id: int
    file: str
    source: str
    destination: str
    direction: Direction
    share: str
    priority: int
    state: TransferState
    attempt: int
    created: float
    since: float
    source_path: str = ""
    emergency: bool = False
    wake_at: float | None = None
    heartbeat: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPilot:
    """A pilot about to be recorded (P10): its task queue is ``queue`` and ``requirements``."""

    queue: str
    requirements: str
    kind: PilotKind
    owner: Identity
    submit_pool: str
    cores: int
    memory: float
    walltime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """A pilot as it stands. ``reference`` is the site's own name for it; ``matched`` counts its jobs."""

    id: int
    queue: str
    requirements: str
    kind: PilotKind
    owner: Identity
    submit_pool: str
    cores: int
    memory: float
    walltime: float
    state: PilotState
    created: float
    since: float
    reference: str = ""
    heartbeat: float | None = None
    matched: int = 0
    error: str = ""

    @property
    def last_heard(self) -> float:
        """When it last called; before its first call, when it came into its state."""
        return self.since if self.heartbeat is None else self.heartbeat
