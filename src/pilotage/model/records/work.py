"""Tasks, jobs and pilots, as they stand and as they come into being; with the data that they work on."""

from dataclasses import dataclass, replace
from typing import Literal

from pilotage.model.values.identity import Identity
from pilotage.model.values.quick import quickly_made
from pilotage.model.values.types import (
    CLOSED,
    DESCRIBED,
    Checksum,
    Cores,
    Count,
    FileName,
    FileSize,
    Megabytes,
    Name,
    NonNegative,
    OutputName,
    Seconds,
)

from .data import Direction, File, NewDatasetVersion, NewTransfer, Replica, Transfer
from .requirements import Requirements
from .spec import MOST_JOBS, Input, InputDataset, InputFile, InputPattern, JobKind, MergeSpec, TaskSpec
from .states import JobState, PilotState, TaskState

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
    "TaskSpec",
    "Transfer",
]

PilotKind = Literal["generic", "private"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task about to be, its input patterns and datasets already resolved to files."""

    __pydantic_config__ = DESCRIBED

    spec: TaskSpec
    """What is asked for."""
    owner: Identity
    """Who asks."""
    submission: str = ""
    """Names the request and the task in it; a second task of the same name is not created. Empty: unnamed."""
    lease_end: float | None = None
    """When it is cancelled unless its submitter renews the lease, in s since 1970; none: never."""
    datasets: tuple[str, ...] = ()
    """The versions of datasets that its inputs are of, as ``SCOPE:NAME@VERSION``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Needs of a task's jobs as its scouts showed them, with a margin; none where no scout reported it.

    Where there is none, what was asked for stands. Other jobs of the task do the work of scouts that
    failed, so these do not count as its failed jobs.
    """

    __pydantic_config__ = CLOSED

    finished: int
    """Scouts that finished and were measured."""
    failed: int = 0
    """Scouts that failed."""
    cpu_time: float | None = None
    """HS23 seconds an event."""
    base_time: float | None = None
    """s that CPU time does not explain."""
    walltime: float | None = None
    """s."""
    memory: float | None = None
    """MB of a whole job."""
    work_disk: float | None = None
    """MB."""
    out_disk: float | None = None
    """MB an event."""

    def replaced(self, spec: TaskSpec) -> TaskSpec:
        """The same with every estimate that was measured in place of the one asked for."""
        names = ("cpu_time", "base_time", "walltime", "work_disk", "out_disk")
        found = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.memory is not None:
            base = 0.0 if spec.ram_unit == "MB" else min(spec.base_ram, self.memory)
            # The measured memory is that of the whole job: it is given back in the unit that was asked in.
            found |= {"base_ram": base, "ram": (self.memory - base) / spec.ram_units}
        return replace(spec, **found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it stands."""

    __pydantic_config__ = DESCRIBED

    id: int
    """Its number."""
    spec: TaskSpec
    """What was asked for."""
    owner: Identity
    """Who asked."""
    state: TaskState
    """Where it is in its life."""
    created: float
    """When it was submitted, in s since 1970."""
    since: float
    """When it came into its state, in s since 1970."""
    error: str = ""
    """Why it failed or was cancelled."""
    measured: Measured | None = None
    """What its scouts needed; none without scouts, or before they ended."""
    attempt: int = 1
    """Grows with each part of its jobs that is made: no part is made twice."""

    def expected(self, kind: JobKind) -> TaskSpec:
        """The specification of its jobs of a kind, with measured estimates where there are any.

        A merge job runs another command, which was not measured.
        """
        if kind == "merge" or self.measured is None:
            return self.spec.for_job(kind)
        return self.measured.replaced(self.spec)

    def limit(self, kind: JobKind, asked: float, most: float) -> float:
        """Limit of memory or walltime beyond which a payload is ended; 0 is none.

        What was asked for, else ``most``, what the queue gives; 0 is none of either. Of a task with scouts
        it is what the queue gives: a scout is to show what it needs, and what a few scouts needed is an
        estimate, which a job may exceed. Merge jobs were not measured.
        """
        if kind == "merge" or (kind == "normal" and self.measured is None):
            return asked or most
        return max(asked, most) if most else 0


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job about to be."""

    __pydantic_config__ = DESCRIBED

    task: int
    """The task that it belongs to."""
    kind: JobKind
    """Normal, scout or merge."""
    share: str
    """Its global share."""
    priority: int
    """Higher ones go first."""
    requirements: str
    """Its task queue within a queue, as ``Requirements.text``."""
    inputs: tuple[str, ...] = ()
    """Logical names of the files that it reads."""
    events: int = 1
    """Events that it works on."""
    throttled: bool = False
    """Whether it is beyond a quota of live jobs, and waits for room (T)."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it stands."""

    __pydantic_config__ = DESCRIBED

    id: int
    """Its number."""
    task: int
    """The task that it belongs to."""
    kind: JobKind
    """Normal, scout or merge."""
    share: str
    """Its global share."""
    priority: int
    """Higher ones go first."""
    requirements: str
    """Its task queue within a queue, as ``Requirements.text``."""
    state: JobState
    """Where it is in its life."""
    attempt: int
    """The attempt under way, from 1: it fences pilots that come back from the dead."""
    since: float
    """When it came into its state, in s since 1970."""
    created: float
    """When it was made, in s since 1970."""
    queue: str = ""
    """The queue that was preferred for it, and once a pilot has it that pilot's; empty before."""
    choice: int | None = None
    """The stored choice whose candidates may take it; none: it stays at its queue (E1)."""
    pilot: int | None = None
    """The pilot that has it; none before it was matched."""
    inputs: tuple[str, ...] = ()
    """Logical names of the files that it reads."""
    events: int = 1
    """Events that it works on."""
    wake_at: float | None = None
    """When a pending job is brokered again, in s since 1970 (B37)."""
    error: str = ""
    """Why its last attempt failed."""
    skipped_since: float | None = None
    """When a merge job was first skipped where its input lies, in s since 1970; none: never (B3)."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class NewPilot:
    """A pilot about to be recorded (P10)."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue that it is for."""
    requirements: str
    """The task queue that it is for, as ``Requirements.text``."""
    kind: PilotKind
    """Whose jobs it runs: anybody's, or its owner's alone (P7)."""
    owner: Identity
    """Whom it belongs to."""
    cores: int
    """Cores for all its payloads."""
    memory: float
    """MB for all its payloads; 0: no limit."""
    walltime: float
    """s that it may run."""
    site: str = ""
    """The site of its queue, whose throttle it counts for (M8)."""
    element: str = ""
    """Kind of its computing element (P10)."""
    broker: str = ""
    """The server that it is submitted to, where its computing element has several (P6, P10)."""
    submit_pool: str = ""
    """The submit pool that submits it (P5)."""
    reason: str = ""
    """How its task queue came to be given pilots (P2 to P4, P12)."""
    slots: int = 1
    """Payloads that it runs side by side (M5)."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """A pilot as it stands."""

    __pydantic_config__ = DESCRIBED

    id: int
    """Its number."""
    queue: str
    """The queue that it is for."""
    requirements: str
    """The task queue that it is for, as ``Requirements.text``."""
    kind: PilotKind
    """Whose jobs it runs: anybody's, or its owner's alone (P7)."""
    owner: Identity
    """Whom it belongs to."""
    cores: int
    """Cores for all its payloads."""
    memory: float
    """MB for all its payloads; 0: no limit."""
    walltime: float
    """s that it may run."""
    state: PilotState
    """Where it is in its life."""
    created: float
    """When it was recorded, in s since 1970."""
    since: float
    """When it came into its state, in s since 1970."""
    reference: str = ""
    """The batch system's own name for it; empty before it was submitted."""
    heartbeat: float | None = None
    """When it last called, in s since 1970."""
    matched: int = 0
    """Jobs that it was given so far."""
    error: str = ""
    """Why it failed."""
    containment: str = ""
    """How it keeps payloads from all that is not theirs; empty: not known yet."""
    node: str = ""
    """The machine that it runs on; empty: not known yet."""
    lacks: str = ""
    """What its machine lacks of that which its task queue asks for: GPUs, containers (P12)."""
    site: str = ""
    """The site of its queue, whose throttle it counts for (M8)."""
    element: str = ""
    """Kind of its computing element (P10)."""
    broker: str = ""
    """The server that it was submitted to, where its computing element has several (P6, P10)."""
    submit_pool: str = ""
    """The submit pool that submitted it (P5)."""
    reason: str = ""
    """How its task queue came to be given pilots (P2 to P4, P12); empty: not known."""
    waits: str = ""
    """Why its batch system does not start it, as that last said; empty: not known."""
    slots: int = 1
    """Payloads that it runs side by side (M5)."""

    @property
    def place(self) -> str:
        """The pilot's node, or the pilot itself where its node is not known."""
        return place_of(self.node, self.id)

    @property
    def last_heard(self) -> float:
        """Time of its last call; before the first one, the time at which it came into its state."""
        return self.since if self.heartbeat is None else self.heartbeat


def place_of(node: str, pilot: int) -> str:
    """The node of a pilot, or the pilot itself where its node is not known."""
    return node or f"pilot {pilot}"
