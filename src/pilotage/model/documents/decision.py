"""Decisions are data: the changes, their grounds, and the reasons.

A policy returns a ``Decision``. The store's commit applies everything in it that still holds, and hands
the rest back. Records change in groups: one ``Move`` takes many records of one kind through the same
transition, so that it costs the store only a few statements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, SerializerFunctionWrapHandler, WrapSerializer

from pilotage.model.circuit_breakers.breaker import Key
from pilotage.model.circuit_breakers.changes import BreakerChange
from pilotage.model.circuit_breakers.storages import End, FailedDelivery
from pilotage.model.documents.remarks import Mend
from pilotage.model.records.advertisements import NewAdvertisement
from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.counters import Claim
from pilotage.model.records.data import CorrectedFile
from pilotage.model.records.failures import Failure
from pilotage.model.records.matching import BorrowRequest, ClaimRequest
from pilotage.model.records.notifications import NewNotification
from pilotage.model.records.publications import NewPublication
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.spec import Binding, LiveWork
from pilotage.model.records.states import Kind, State
from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.model.records.work import (
    File,
    NewDatasetVersion,
    NewJob,
    NewPilot,
    NewTask,
    NewTransfer,
    Replica,
)
from pilotage.model.values.quick import quickly_made
from pilotage.model.values.types import DESCRIBED

Value = int | float | str | bool | None
_Data = File | CorrectedFile | Replica | NewDatasetVersion
_Told = Failure | FailedDelivery | NewAdvertisement | Borrowing | StorageSpace
_Stateful = NewTask | NewJob | NewTransfer | NewPilot | NewPublication | NewNotification
Creation = _Stateful | _Data | _Told

KINDS: Mapping[type, Kind] = {
    NewTask: "task",
    NewJob: "job",
    NewTransfer: "transfer",
    NewPilot: "pilot",
    NewPublication: "publication",
    NewNotification: "notification",
}
"""The kind of new records. Others, such as files and their replicas, have no states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimit:
    """Most unfinished work of an owner, or of a whole VO, including new tasks."""

    __pydantic_config__ = DESCRIBED

    vo: str
    """The VO."""
    owner: str | None
    """The owner in it; none: all of them together."""
    most: LiveWork
    """Tasks, jobs and input files."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Records of one kind that make the same transition."""

    __pydantic_config__ = DESCRIBED

    kind: Kind
    """The kind of the moving records."""
    ids: tuple[int, ...]
    """Records, in the order in which they take capacity."""
    source: State
    """The state that they must be in."""
    target: State
    """The state that they come into."""
    cause: str
    """Why, for their history."""
    attempts: tuple[int, ...] | None = None
    """As long as ``ids``. A record with another attempt is handed back: this fences lost pilots."""
    next_attempt: bool = False
    """Whether the attempt grows by one."""
    changes: Mapping[str, Value] = field(default_factory=dict)
    """Columns set to the same value on every record."""
    own_changes: Mapping[int, Mapping[str, Value]] = field(default_factory=dict)
    """Further columns by the id of the record. No counter uses them."""
    creates: Mapping[int, tuple[Creation, ...]] = field(default_factory=dict)
    """New records by the id that they rest on. They are created only if that record moves."""
    claims: tuple[Claim, ...] = ()
    """Capacity taken."""
    choice: int | None = None
    """Index of the reason in ``Decision.choices``."""
    binding: Binding = "early"
    """Whether pilots of the choice's other candidates may take placed jobs (E1)."""
    takers: tuple[str, ...] | None = None
    """Candidates that hold the input of these jobs or may read it remotely (E3); none: all of them."""
    at: str | None = None
    """The queue where a job must still be, or it is handed back; none: anywhere (E2)."""
    changes_read: str | None = None
    """The ``changes`` that a job or task must still have, or it is handed back; none: any."""
    job_quotas: QuotaConstants | None = None
    """Quotas that the live jobs must keep, moved or created; a record beyond is handed back (T)."""
    work_limits: tuple[WorkLimit, ...] = ()
    """Limits on unfinished work. If ended tasks that go on would exceed one, the whole decision is handed
    back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """New records that rest only on the capacity that they claim and on limits of their owner's work."""

    __pydantic_config__ = DESCRIBED

    records: tuple[Creation, ...]
    """The new records."""
    cause: str
    """Why, for their history."""
    claims: tuple[Claim, ...] = ()
    """Capacity taken."""
    work_limits: tuple[WorkLimit, ...] = ()
    """Limits on unfinished work. If the new tasks would exceed one, all records are handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """Columns set on records without a transition: heartbeats, references, priorities."""

    __pydantic_config__ = DESCRIBED

    kind: Kind
    """The kind of the records."""
    ids: tuple[int, ...]
    """Records."""
    changes: Mapping[str, Value]
    """Columns set to the same value on every record."""
    ended: bool = False
    """Whether records that have ended are set too; otherwise they are handed back."""
    attempts: tuple[int, ...] | None = None
    """As long as ``ids``. A record with another attempt is handed back."""
    changes_read: str | None = None
    """The ``changes`` that a job or task must still have, or it is handed back; none: any."""
    server_read: str | None = None
    """The ``server`` that a pilot must still name, not submitted yet, or it is handed back; none: any."""
    event: str = ""
    """What its event calls the records now, such as ``held``; empty: it adds no event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Records to remove: lost or unwanted replicas, files and datasets, and failed deliveries that stop
    counting. It adds no event.
    """

    __pydantic_config__ = DESCRIBED

    replicas: tuple[Replica, ...] = ()
    """Copies to forget."""
    files: tuple[str, ...] = ()
    """Identifiers of files to forget. A file that a live job reads stays."""
    if_unread: bool = False
    """Whether a replica stays if a live job reads its file, or if it is the file's last."""
    if_unwanted: bool = False
    """Whether files and their replicas stay if a task reads or will read them, or a transfer moves them."""
    datasets: tuple[str, ...] = ()
    """Identifiers of datasets to forget. A dataset that a live task names stays. Their files stay."""
    failed_at: tuple[End, ...] = ()
    """Storages, as source, destination or both, where failed deliveries stop counting (F4)."""
    lifted: tuple[Key, ...] = ()
    """Circuit breakers that an operator lifts: earlier failures stop counting (P6, P8, P12, F2, F4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The start of a step's iteration, at most one per period however many servers decide.

    If another iteration began since, all later changes of the decision are handed back.
    """

    __pydantic_config__ = DESCRIBED

    step: str
    """The step."""
    last: float | None
    """When the last iteration began according to the decision, in s since 1970; none: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteBreakers:
    """Changes of circuit breakers. Each becomes an event if the store had noted the earlier state."""

    __pydantic_config__ = DESCRIBED

    changes: tuple[BreakerChange, ...]
    """The changes."""


Change = Move | Create | Touch | Forget | Begin | NoteBreakers | ClaimRequest | BorrowRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Result of committing a decision, in the order of its changes.

    ``accepted`` holds the ids of each change's moved or touched records. ``created`` holds the ids of new
    records in order; None means that one existed already or did not fit.
    """

    accepted: tuple[tuple[int, ...], ...] = ()
    created: tuple[tuple[int | None, ...], ...] = ()
    handed_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """Order of candidates by something other than their weight: lowest key first."""

    __pydantic_config__ = DESCRIBED

    rule: str
    """Number of the rule."""
    name: str
    """Name of the rule."""
    keys: tuple[float, ...]
    """One for each candidate."""
    unit: str = ""
    """Unit of the keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Queues that passed every check, best first."""

    __pydantic_config__ = DESCRIBED

    queues: tuple[str, ...] = ()
    """Names, best first."""
    weights: tuple[float, ...] = ()
    """One for each queue."""
    factors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Each factor of the weights by rule number, one value for each queue."""
    ordering: Ordering | None = None
    """What ordered them instead of their weight."""
    room: tuple[int, ...] = ()
    """Most jobs that each could take when these were placed (B36)."""
    most: int = 0
    """Most queues with room that take jobs, best first (B37); 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A field of the task, and how it leads to a need: ``need = (fixed + each * value) * factor``."""

    __pydantic_config__ = DESCRIBED

    field: str
    """Name of the task's field."""
    value: int | float
    """Its value in the task."""
    fixed: float = 0.0
    """Added to ``each * value``."""
    each: float | None = None
    """Factor on the value; none if it differs by queue, and follows from the need there."""
    factor: float = 1.0
    """Factor on the sum."""
    least: float = 0.0
    """Least that ``each * value`` counts as."""
    instead: int | None = None
    """A value that switches the check off at any queue; none if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The words of a refusal: the rule's number and name, and who can mend it.

    ``lifted_by`` names what would lift it. It is empty if the user can simply ask for less.
    """

    rule: str
    name: str
    mend: Mend
    unit: str = ""
    lifted_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One check and all the queues that it refuses."""

    __pydantic_config__ = DESCRIBED

    rule: str
    """Number of the rule."""
    name: str
    """Name of the check."""
    mend: Mend
    """Who can mend it: the user, an operator, or time."""
    queues: tuple[str, ...]
    """The queues that it refuses."""
    have: tuple[Value, ...]
    """The value of each of them."""
    need: Value | tuple[Value, ...]
    """The need; a tuple as long as ``queues`` if it differs by queue."""
    unit: str = ""
    """Unit of need and have."""
    lifted_by: str = ""
    """What would lift it."""
    asked: tuple[Asked, ...] = ()
    """Task fields to change if no queue fits, easiest first."""

    @property
    def label(self) -> Label:
        """Return the words of this refusal, without its queues and values."""
        return Label(rule=self.rule, name=self.name, mend=self.mend, unit=self.unit, lifted_by=self.lifted_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Why a group of similar jobs of one task was placed, or not."""

    __pydantic_config__ = DESCRIBED

    task: int
    """The task."""
    job_kind: str
    """Normal, scout or merge."""
    jobs: tuple[int, ...]
    """Jobs that were placed or made pending."""
    placed: Mapping[str, int]
    """The number of jobs for each queue."""
    considered: int
    """Number of queues examined. Each is a candidate, or is in at least one refusal."""
    candidates: Candidates
    """Queues that passed every check."""
    refusals: tuple[Refusal, ...]
    """Checks that refused queues."""
    left: int = 0
    """Jobs that stay DEFINED for the next pass: queues outside the best have room for them."""
    waived: tuple[Refusal, ...] = ()
    """Refusals that were set aside. ``lifted_by`` is the reason: the task names its queues (B2), or none
    would be left (B8, B11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedChoice(Choice):
    """A stored choice and its time in s since 1970 UTC."""

    time: float


def _as_tuple(choices: Sequence[Choice], write: SerializerFunctionWrapHandler) -> Any:
    # Brokerages' choices are made on reading: as a tuple they are written like any others.
    return write(tuple(choices))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Changes that one step decided from one world, with the reasons."""

    __pydantic_config__ = DESCRIBED

    step: str
    """Name of the step, of one of its policies, or of the call that decided."""
    time: float
    """The world's time."""
    seed: int
    """The world's seed."""
    changes: tuple[Change, ...] = ()
    """The changes, in the order of their application."""
    choices: Annotated[Sequence[Choice], AfterValidator(tuple), WrapSerializer(_as_tuple)] = ()
    """The reasons of moves."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """How the decision came about, for people."""

    @property
    def of_records(self) -> "Sequence[Move | Create | Touch | Forget | ClaimRequest | BorrowRequest]":
        """Return the changes of records, without starts of iterations, and notes of circuit breakers."""
        return [change for change in self.changes if not isinstance(change, Begin | NoteBreakers)]

    @property
    def requests(self) -> Sequence[ClaimRequest | BorrowRequest]:
        """Return the changes that give jobs to pilots."""
        return [change for change in self.changes if isinstance(change, ClaimRequest | BorrowRequest)]

    @property
    def moves(self) -> Sequence[Move]:
        """Return the changes that are moves."""
        return [change for change in self.changes if isinstance(change, Move)]
