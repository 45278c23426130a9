"""Pilots that ask for jobs, the jobs that wait, and which of these the pilots take (P13, E1, E2)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.counters import Claim
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.states import JobState
from pilotage.model.records.work import PilotKind
from pilotage.model.values.identity import Identity
from pilotage.model.values.quick import quickly_made
from pilotage.model.values.types import DESCRIBED, Count, Number

MostJobs = Annotated[int, Field(le=100_000)]
"""Bounded like the slots of a queue, because policies draw jobs one by one."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRequest:
    """Capacity that a pilot offers for jobs."""

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    queue: str
    """Its queue."""
    kind: PilotKind
    """Whose jobs it runs."""
    owner: Identity
    """Whom it belongs to."""
    cores: int
    """Cores that it has free."""
    memory: float
    """MB that it has free; 0: no limit."""
    walltime: float
    """s that it has left."""
    max_jobs: MostJobs
    """Most jobs that it would take."""
    containment: str = ""
    """How it contains payloads; empty: not reported."""
    node: str = ""
    """The machine that it runs on; empty: not reported."""
    gpus: int = 0
    """GPUs that it has free."""
    containers: bool = False
    """Whether it can run payloads in containers."""

    def less(self, requirements: Iterable[str]) -> "MatchRequest":
        """Return the capacity that remains after one job of each of these requirements."""
        needs = [Requirements.from_text(text) for text in requirements]
        if not needs:
            return self
        # Never 0, which would mean no limit.
        memory = self.memory and max(1e-9, self.memory - sum(need.memory for need in needs))
        return replace(
            self,
            max_jobs=self.max_jobs - len(needs),
            cores=self.cores - sum(need.cores for need in needs),
            memory=memory,
            gpus=self.gpus - sum(need.gpus for need in needs),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityLevel:
    """Activated jobs of one task queue that have the same priority."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    requirements: str
    """What the jobs have in common, as ``Requirements.text``."""
    priority: int
    """Their priority."""
    jobs: Number
    """How many."""
    tasks: Mapping[Count, Number] = field(default_factory=dict)
    """How many of them belong to tasks with failures, by task: a place may be closed to these alone (F2)."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Jobs at the head of a task queue that have the same priority: the oldest, then the lowest numbers."""

    __pydantic_config__ = DESCRIBED

    requirements: str
    """The task queue, as ``Requirements.text``."""
    priority: int
    """Their priority."""
    jobs: int
    """How many are taken."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Jobs at the heads of task queues for a pilot of their queue; the commit finds which they are (P13).

    It is the pilot's heartbeat, also where it takes nothing.
    """

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    queue: str
    """Its queue."""
    heads: tuple[Head, ...] = ()
    """What it takes, in this order."""
    passed_over: tuple[int, ...] = ()
    """Tasks whose jobs are passed over: the pilot's place is closed to them (F2)."""
    containment: str = ""
    """How it contains payloads; empty: not reported."""
    node: str = ""
    """The machine that it runs on; empty: not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowableAttempt:
    """An attempt that waits at another queue, as last read there, and the record of who takes it."""

    __pydantic_config__ = DESCRIBED

    state: JobState
    """The state in which it waits."""
    requirements: str
    """Its task queue, as ``Requirements.text``."""
    changes_read: str = ""
    """Its changed fields as the decision read them: a job that changed since stays where it is."""
    borrowing: Borrowing
    """The job, its attempt and queue, and the prediction behind the borrowing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowRequest:
    """Jobs of other queues for a pilot, each taken only if it is still where the decision read it (E1, E2).

    It is the pilot's heartbeat.
    """

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    queue: str
    """Its queue."""
    site: str
    """The site of its queue."""
    jobs: tuple[BorrowableAttempt, ...]
    """Jobs to take, and spares in case another pilot has taken some."""
    most: int
    """How many it takes: the first that are still there."""
    claims: tuple[Claim, ...] = ()
    """Capacity taken at its site."""
    containment: str = ""
    """How it contains payloads; empty: not reported."""
    node: str = ""
    """The machine that it runs on; empty: not reported."""
