"""Tasks, jobs and pilots, current and new ones, with the data that they work on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pilotage.model.records.chains import StageReuse
from pilotage.model.records.computing_elements import entrance_of
from pilotage.model.records.data import Direction, File, NewDatasetVersion, NewTransfer, Replica, Transfer
from pilotage.model.records.failures import Tries
from pilotage.model.records.inputs import Input, InputDataset, InputFile, InputPattern, TaskOutputs
from pilotage.model.records.job_changes import changed_spec, from_text
from pilotage.model.records.life import Life, LifeInAttempts
from pilotage.model.records.measured import Measured
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.spec import MOST_JOBS, JobKind, TaskSpec
from pilotage.model.records.spec_parts import MergeSpec
from pilotage.model.records.states import JobState, PilotState, TaskState
from pilotage.model.values.identity import Identity
from pilotage.model.values.quick import quickly_made
from pilotage.model.values.types import (
    DESCRIBED,
    Checksum,
    Cores,
    Count,
    Elsewhere,
    FileName,
    FileSize,
    Megabytes,
    Name,
    NonNegative,
    OutputName,
    RecordId,
    Seconds,
    Settable,
)

__all__ = [
    "MOST_JOBS",
    "Checksum",
    "Cores",
    "Count",
    "Direction",
    "File",
    "FileName",
    "FileSize",
    "Input",
    "InputDataset",
    "InputFile",
    "InputPattern",
    "Job",
    "JobKind",
    "Measured",
    "Megabytes",
    "MergeSpec",
    "Name",
    "NewDatasetVersion",
    "NewJob",
    "NewPilot",
    "NewTask",
    "NewTransfer",
    "NonNegative",
    "OutputName",
    "Pilot",
    "PilotKind",
    "Replica",
    "Requirements",
    "Seconds",
    "Task",
    "TaskOutputs",
    "TaskSpec",
    "Transfer",
]

PilotKind = Literal["generic", "private"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to create. Its input patterns and datasets are already resolved to files."""

    __pydantic_config__ = DESCRIBED

    spec: TaskSpec
    """The specification."""
    owner: Identity
    """The submitter."""
    submission: str = ""
    """Names the request and the task in it. A second task with the same name is not created. Empty:
    unnamed."""
    lease_end: float | None = None
    """When it is cancelled unless its submitter renews the lease, in s since 1970; none: never."""
    datasets: tuple[str, ...] = ()
    """The versions of datasets that its inputs belong to, as ``SCOPE:NAME@VERSION``."""
    workflow: str = ""
    """The name of the workflow that is created with it; empty: none."""
    stages: tuple[StageReuse, ...] = ()
    """What becomes of the stages of that workflow, if it is resumed, and if this is the first task of it."""
    predecessors: Mapping[str, int] = field(default_factory=dict)
    """Tasks that it comes after, by the name or number that it gives them."""
    new_predecessors: Mapping[str, int] = field(default_factory=dict)
    """The same of tasks that are created with it, by their place among these."""

    @property
    def is_chained(self) -> bool:
        """Return whether it comes after other tasks."""
        return bool(self.predecessors or self.new_predecessors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Life):
    """A task in its current state."""

    __pydantic_config__ = DESCRIBED

    spec: Elsewhere[TaskSpec]
    """The specification."""
    owner: Identity
    """The submitter."""
    state: TaskState
    """Its state."""
    measured: Settable[Measured | None] = None
    """The needs measured by its scouts; none without scouts, or before they ended."""
    attempt: int = 1
    """Grows with each new part of its jobs, so that no part is made twice."""
    held: Settable[str] = ""
    """Who holds it, so that no job of it starts; empty: it is not held."""
    finishing: Settable[bool] = False
    """Whether a person has it end with what it has: jobs that ended badly do not count against it."""
    changes: Settable[str] = ""
    """Changed fields of jobs that are not made yet (see ``job_changes``); empty: none."""
    change_notes: Settable[str] = ""
    """Who changed which of its fields, and when: the last ``ChangeNote`` as JSON; empty: no changes."""
    on_end: Settable[bool] = False
    """Whether it starts however the tasks before it ended: by its specification, or released by a person."""
    notices: Settable[str] = ""
    """Topics still to be sent to its receivers (see ``notifications``); empty: none."""

    def tries(self, job: "Job") -> Tries:
        """Return how many attempts a job has before it fails for good; a person's retry gives as many
        again."""
        return Tries(self.spec.max_attempts, job.attempts_before)

    def changed(self, changes: str, kind: JobKind) -> "Task":
        """Return the task as a job with these changes sees it (``Job.changes``).

        A value that the task states counts more than the scouts' measurement.
        """
        if not changes:
            return self
        spec = changed_spec(self.spec, changes, is_merge=kind == "merge")
        measured = self.measured and self.measured.without(from_text(changes))
        return replace(self, spec=spec, measured=measured)

    def expected(self, kind: JobKind) -> TaskSpec:
        """Return the specification of its jobs of a kind, with measured estimates if there are any.

        A merge job runs another command, which was not measured.
        """
        if kind == "merge" or self.measured is None:
            return self.spec.for_job(kind)
        return self.measured.replaced(self.spec)

    def limit(self, kind: JobKind, request: float, queue_limit: float) -> float:
        """Return the limit of memory or walltime beyond which a payload is ended; 0 means none.

        It is the request, else ``queue_limit``; 0 means neither. For a task with scouts it is the
        queue's limit: a scout should show its needs, and the needs of a few scouts are an estimate that a job
        may exceed. Merge jobs were not measured.
        """
        if kind == "merge" or (kind == "normal" and self.measured is None):
            return request or queue_limit
        return max(request, queue_limit) if queue_limit else 0


@dataclass(frozen=True, kw_only=True)
class JobHead:
    """What everybody sees of a job, new or not."""

    __slots__ = ()

    task: RecordId
    """Its task."""
    kind: JobKind
    """Normal, scout or merge."""
    priority: Settable[int]
    """Higher ones go first."""
    index: int | None = None
    """Its place among its task's jobs, from 0, which never changes; none: a merge job."""


@dataclass(frozen=True, kw_only=True)
class JobPlan(JobHead):
    """What a job is to do."""

    __slots__ = ()

    share: Settable[str]
    """Its global share."""
    requirements: Settable[str]
    """Its task queue within a queue, as ``Requirements.text``."""
    inputs: Elsewhere[tuple[str, ...]] = ()
    """Logical names of the files that it reads."""
    events: int = 1
    """Number of its events."""
    changes: Settable[str] = ""
    """Changed fields of the task that only count for it (see ``job_changes``); empty: none."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob(JobPlan):
    """A job to create."""

    __pydantic_config__ = DESCRIBED

    throttled: Elsewhere[bool] = False
    """Whether it is beyond a quota of live jobs, and waits for room (T)."""


@dataclass(frozen=True, kw_only=True)
class JobNow(JobHead, LifeInAttempts):
    """What everybody sees of a job in its current state. Its attempt fences pilots that were thought lost."""

    __slots__ = ()

    state: JobState
    """Its state."""
    queue: Settable[str] = ""
    """Its preferred queue, and once a pilot has it, the pilot's queue; empty before."""
    pilot: Settable[RecordId | None] = None
    """The pilot that has it; none before the match."""


@dataclass(frozen=True, kw_only=True)
class LastAttempt:
    """What everybody sees of a job's last attempt."""

    __slots__ = ()
    __pydantic_config__ = DESCRIBED

    started: Settable[float | None] = None
    """When it started, in s since 1970; none: it has not."""
    ended: Settable[float | None] = None
    """When it ended, in s since 1970; none: it has not."""
    exit_code: Settable[int | None] = None
    """Exit code of the payload, negative for a signal; none: not reported."""
    cpu_seconds: Settable[float | None] = None
    """s of CPU time; none: not reported."""
    wall_seconds: Settable[float | None] = None
    """s of walltime; none: not reported."""
    max_rss: Settable[float | None] = None
    """Highest memory use, in MB."""
    max_workdir: Settable[float | None] = None
    """Most data that the payload added to its directory, in MB."""
    disk_io: Settable[float | None] = None
    """Disk I/O in kB/s per core: of late while it runs; none: not measured."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobNow, JobPlan):
    """A job in its current state."""

    __pydantic_config__ = DESCRIBED

    choice: Settable[RecordId | None] = None
    """The stored choice whose candidates may take it; none: it stays at its queue (E1)."""
    wake_at: Settable[float | None] = None
    """When a pending job is brokered again, in s since 1970 (B37)."""
    skipped_since: Elsewhere[float | None] = None
    """When a merge job was first skipped where its input lies, in s since 1970; none: never (B3)."""
    attempts_before: Settable[int] = 0
    """Its attempt when a person last retried it: this one and earlier ones do not count."""
    departures: Settable[str] = ""
    """The queues from which fast rebrokerage took it, each with the time in s since 1970, as JSON; empty:
    none (B30)."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class NewPilot:
    """A pilot to record (P10)."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """Its queue."""
    requirements: str
    """Its task queue, as ``Requirements.text``."""
    kind: PilotKind
    """Whose jobs it runs: everybody's, or only its owner's (P7)."""
    owner: Identity
    """Its owner."""
    cores: int
    """Cores for all its payloads."""
    memory: float
    """MB for all its payloads; 0: no limit."""
    walltime: float
    """s that it may run."""
    site: str = ""
    """The site of its queue, whose throttle counts it (M8)."""
    element: str = ""
    """Kind of its computing element (P10)."""
    broker: str = ""
    """The server that it is submitted to, if its computing element has several (P6, P10)."""
    submit_pool: str = ""
    """The submit pool that submits it (P5)."""
    credential: str = ""
    """The person or group that has its credential at the site; empty: it has the common one (P9)."""
    reason: str = ""
    """Why its task queue gets pilots (P2 to P4, P12); empty: unknown."""
    slots: int = 1
    """Payloads that it runs at once (M5)."""
    server: Settable[str] = ""
    """The name of the server that records and submits it; empty: unknown."""

    @property
    def entrance(self) -> str:
        """Return its server under its credential, which has its own circuit breaker (P6)."""
        return entrance_of(self.broker, self.credential)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot(NewPilot, Life):
    """A pilot in its current state."""

    __pydantic_config__ = DESCRIBED

    state: PilotState
    """Its state."""
    reference: Settable[str] = ""
    """The batch system's name for it; empty before submission."""
    heartbeat: Settable[float | None] = None
    """When it last called, in s since 1970."""
    matched: Settable[int] = 0
    """Number of jobs that it got so far."""
    containment: Settable[str] = ""
    """How it contains payloads; empty: unknown yet."""
    node: Settable[str] = ""
    """The machine that it runs on; empty: unknown yet."""
    lacks: Settable[str] = ""
    """Requirements of its task queue that its machine lacks: GPUs, containers (P12)."""
    waits: Settable[str] = ""
    """Why its batch system does not start it, by its last report; empty: unknown."""
    missing_since: Settable[float | None] = None
    """When its batch system first answered without listing it, in s since 1970; none: it lists it."""
    ended_there_since: Settable[float | None] = None
    """When its batch system first reported its batch job as ended, in s since 1970; none: not reported."""
    end_doubt: Settable[float] = 0
    """s of silence since then before that end counts."""
    agent_version: Settable[str] = ""
    """The version of its agent, by the agent's first call; empty: unknown."""

    @property
    def place(self) -> str:
        """Return the pilot's node, or the pilot itself if its node is unknown."""
        return place_of(self.node, self.id)

    @property
    def last_heard(self) -> float:
        """Return the time of its last call, or before the first one, the time when it entered its state."""
        return self.since if self.heartbeat is None else self.heartbeat

    @property
    def end_sure_at(self) -> float | None:
        """Return when its attempts end because its batch job has ended, in s since 1970; None: it has not."""
        return None if self.ended_there_since is None else self.ended_there_since + self.end_doubt


def place_of(node: str, pilot: int) -> str:
    """Return the node of a pilot, or the pilot itself if its node is unknown."""
    return node or f"pilot {pilot}"


FileKind = Literal["input", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOfJob:
    """An input or output of a job."""

    __pydantic_config__ = DESCRIBED

    file: str
    """Its identifier, ``SCOPE:NAME``."""
    kind: FileKind
    """Its role for the job."""
    size: int
    """Bytes."""
    storages: tuple[str, ...]
    """Storages that hold it, by name."""
    transfer: Transfer | None = None
    """The last transfer of it to the storage of the job's queue, or of an output from there; none: there
    was none."""
    took: float | None = None
    """Duration of its delivery in s; none: it has not ended."""
    way: str = ""
    """How the job, or its destination, gets it, in words."""
