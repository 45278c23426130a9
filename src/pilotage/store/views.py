"""What people are shown. Times in s since 1970 UTC, memory in MB, files in bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotage.model.decision import Choice
from pilotage.model.federation import QueueStatus
from pilotage.model.states import JobState, PilotState, State, TaskState, TransferState
from pilotage.model.work import JobKind, Measured, TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task, with the number of its jobs in each state."""

    id: int
    name: str
    state: TaskState
    owner: str
    vo: str
    share: str
    priority: int
    created: float
    since: float
    error: str
    jobs: Mapping[JobState, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetails(TaskView):
    """A task, with what was asked for, and what its scouts needed once they have ended."""

    spec: TaskSpec
    measured: Measured | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as it stands, and what its last attempt used."""

    id: int
    task: int
    kind: JobKind
    state: JobState
    attempt: int
    queue: str
    site: str
    pilot: int | None
    priority: int
    since: float
    created: float
    started: float | None
    ended: float | None
    error: str
    exit_code: int | None
    cpu_seconds: float | None
    wall_seconds: float | None
    max_rss: float | None
    max_workdir: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One transition: when, why, by whom; ``attempt`` is the one before the transition."""

    time: float
    source: State | None
    target: State
    cause: str
    actor: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails(JobView):
    """A job with its history, oldest first."""

    events: tuple[EventView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """Where a copy lies."""

    storage: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """A file that a job made."""

    name: str
    size: int
    checksum: str
    job: int
    kind: JobKind
    replicas: tuple[ReplicaView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedChoice(Choice):
    """Why jobs went where they went, or nowhere, and when that was decided."""

    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue, with the number of its jobs and pilots in each state."""

    name: str
    site: str
    status: QueueStatus
    cores: int
    max_memory: float
    max_walltime: float
    jobs: Mapping[JobState, int]
    pilots: Mapping[PilotState, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareView:
    """A share, with the number of its jobs and transfers in each state.

    Transfers are shared by a criterion of their own (D1): where that gives other names than the global
    shares', they stand in rows of their own, with a ``target`` of 0.
    """

    name: str
    vo: str = ""
    target: float = 0
    jobs: Mapping[JobState, int] = field(default_factory=dict)
    transfers: Mapping[TransferState, int] = field(default_factory=dict)
