"""Decisions are data: what changes, what that rests on, and why.

A policy returns a :class:`Decision`; the store's commit applies what still holds of it and hands the rest
back. Records are changed in groups: one :class:`Move` takes many records of one kind through the same
transition, so that its cost in the store is that of a few statements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, SerializerFunctionWrapHandler, WrapSerializer

from pilotage.model.records.advertisements import NewAdvertisement
from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.capacity_claims import Claim
from pilotage.model.records.data import CorrectedFile
from pilotage.model.records.failures import Failure
from pilotage.model.records.matching import BorrowRequest, ClaimRequest
from pilotage.model.records.publications import NewPublication
from pilotage.model.records.spec import Binding, LiveWork
from pilotage.model.records.states import Kind, State
from pilotage.model.records.storage_rests import End, FailedDelivery
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
Mend = Literal["user", "operator", "wait"]
_Data = File | CorrectedFile | Replica | NewDatasetVersion
_Told = Failure | FailedDelivery | NewAdvertisement | Borrowing | StorageSpace
_Stateful = NewTask | NewJob | NewTransfer | NewPilot | NewPublication
Creation = _Stateful | _Data | _Told

KINDS: Mapping[type, Kind] = {
    NewTask: "task",
    NewJob: "job",
    NewTransfer: "transfer",
    NewPilot: "pilot",
    NewPublication: "publication",
}
"""The kind of new records; others, such as files and their replicas, have no states."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Records of one kind that make the same transition."""

    __pydantic_config__ = DESCRIBED

    kind: Kind
    """What moves."""
    ids: tuple[int, ...]
    """Records, in the order in which they take capacity."""
    source: State
    """The state that they must be in."""
    target: State
    """The state that they come into."""
    cause: str
    """Why, for their history."""
    attempts: tuple[int, ...] | None = None
    """As long as ``ids``: a record whose attempt differs is handed back, which fences whoever comes back
    from the dead."""
    next_attempt: bool = False
    """Whether the attempt grows by one."""
    changes: Mapping[str, Value] = field(default_factory=dict)
    """Columns set to the same value on every record."""
    own_changes: Mapping[int, Mapping[str, Value]] = field(default_factory=dict)
    """Columns set besides, by the id of the record, which is counted by none of them."""
    creates: Mapping[int, tuple[Creation, ...]] = field(default_factory=dict)
    """New records by the id that they rest on: they come into being only if that record moves."""
    claims: tuple[Claim, ...] = ()
    """Capacity taken."""
    choice: int | None = None
    """Index of the reason in ``Decision.choices``."""
    binding: Binding = "early"
    """Of placed jobs, whether pilots of the choice's other candidates may take them (E1)."""
    takers: tuple[str, ...] | None = None
    """Candidates that hold the input of these jobs or may read it from afar (E3); none: all of them."""
    at: str | None = None
    """The queue where a job must still be: else it is handed back; none: wherever it is (E2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimit:
    """Most unfinished work that an owner, or a whole VO, may have once new tasks are created."""

    __pydantic_config__ = DESCRIBED

    vo: str
    """The VO."""
    owner: str | None
    """The owner in it; none: all of them together."""
    most: LiveWork
    """Tasks, jobs and input files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """New records that rest on nothing but the capacity they claim and the limits on their owner's work."""

    __pydantic_config__ = DESCRIBED

    records: tuple[Creation, ...]
    """What comes into being."""
    cause: str
    """Why, for their history."""
    claims: tuple[Claim, ...] = ()
    """Capacity taken."""
    work_limits: tuple[WorkLimit, ...] = ()
    """Limits on unfinished work: where the new tasks would pass any, all records are handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """Columns set on live records without a transition: heartbeats, references, priorities. No event."""

    __pydantic_config__ = DESCRIBED

    kind: Kind
    """What is touched."""
    ids: tuple[int, ...]
    """Records."""
    changes: Mapping[str, Value]
    """Columns set to the same value on every record."""
    attempts: tuple[int, ...] | None = None
    """As long as ``ids``: a record whose attempt differs is handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Replicas, files with all of theirs, and datasets, that are gone or that nobody wants: known no more;
    failures of deliveries that count no more. No event."""

    __pydantic_config__ = DESCRIBED

    replicas: tuple[Replica, ...] = ()
    """Copies that count no more."""
    files: tuple[str, ...] = ()
    """Files by identifier that are known no more; one that a live job reads stays."""
    if_unread: bool = False
    """Whether a replica stays known where a live job reads its file, or where it is the file's last."""
    if_unwanted: bool = False
    """Whether files stay known, with their replicas, that a task reads or will read, or a transfer moves."""
    datasets: tuple[str, ...] = ()
    """Datasets by identifier that are known no more; one that a live task names stays. Their files stay."""
    failed_at: tuple[End, ...] = ()
    """Storages, as source or destination or both, at which deliveries that failed count no more (F4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """An iteration of a step, of which there is one in a period however many decide: what follows in the
    decision is handed back whole if another began since."""

    __pydantic_config__ = DESCRIBED

    step: str
    """The step."""
    last: float | None
    """When the last iteration began, as the decision saw it, in s since 1970; none: there was none."""


Change = Move | Create | Touch | Forget | Begin | ClaimRequest | BorrowRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Result of committing a decision, aligned with its changes.

    ``accepted`` holds the ids of each change's records that were moved or touched; ``created`` the ids of the
    records that came into being, in order, None where one was there already or did not fit.
    """

    accepted: tuple[tuple[int, ...], ...] = ()
    created: tuple[tuple[int | None, ...], ...] = ()
    handed_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """Order of candidates by something else than their weight: the lowest key first."""

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
    """What put them in order instead of their weight."""
    room: tuple[int, ...] = ()
    """Jobs that each could take at most when these were placed (B36)."""
    most: int = 0
    """Queues with room that take jobs at most, the best (B37); 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A field of the task and how a need comes of it: ``need = (fixed + each * value) * factor``."""

    __pydantic_config__ = DESCRIBED

    field: str
    """Name of the task's field."""
    value: int | float
    """What the task has there."""
    fixed: float = 0.0
    """Added to ``each * value``."""
    each: float | None = None
    """Factor on the value; none where it differs by queue, and the need there tells it."""
    factor: float = 1.0
    """Factor on the sum."""
    least: float = 0.0
    """Least that ``each * value`` counts as."""
    instead: int | None = None
    """A value with which the check no longer applies, whatever the queue has; none where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The words of a refusal: the rule's number and name, and who can mend it.

    ``lifted_by`` says what would lift it; a user's needs none where asking for less would do.
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
    """Queues that it refuses."""
    have: tuple[Value, ...]
    """What each of them has."""
    need: Value | tuple[Value, ...]
    """What was needed; a tuple as long as ``queues`` where it differs by queue."""
    unit: str = ""
    """Unit of need and have."""
    lifted_by: str = ""
    """What would lift it."""
    asked: tuple[Asked, ...] = ()
    """Fields of the task that could be changed where no queue fits, easiest first."""

    @property
    def label(self) -> Label:
        """The label that says this reason in words."""
        return Label(rule=self.rule, name=self.name, mend=self.mend, unit=self.unit, lifted_by=self.lifted_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Reasons why a group of like jobs of one task was placed, or not."""

    __pydantic_config__ = DESCRIBED

    task: int
    """The task."""
    job_kind: str
    """Normal, scout or merge."""
    jobs: tuple[int, ...]
    """Jobs that were placed or made pending."""
    placed: Mapping[str, int]
    """How many went to each queue."""
    considered: int
    """Queues that were looked at: each is a candidate, or stands in at least one refusal."""
    candidates: Candidates
    """Queues that passed every check."""
    refusals: tuple[Refusal, ...]
    """Checks that refused queues."""
    left: int = 0
    """Jobs that stay defined for the next pass: queues that are not among the best have room for them."""
    waived: tuple[Refusal, ...] = ()
    """Refusals that were set aside; ``lifted_by`` says why: the task names its queues (B2), or none would be
    left (B8, B11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedChoice(Choice):
    """A stored choice and when it was made, in s since 1970 UTC."""

    time: float


def _as_tuple(choices: Sequence[Choice], write: SerializerFunctionWrapHandler) -> Any:
    # The brokerages' choices are made when they are read: as a tuple they are written like any others.
    return write(tuple(choices))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Changes that one step decided from one world, and the reasons."""

    __pydantic_config__ = DESCRIBED

    step: str
    """Name of the step, of one of its policies, or of the call that decided."""
    time: float
    """The world's."""
    seed: int
    """The world's."""
    changes: tuple[Change, ...] = ()
    """What changes, in the order in which it is applied."""
    choices: Annotated[Sequence[Choice], AfterValidator(tuple), WrapSerializer(_as_tuple)] = ()
    """The reasons of moves."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """How the decision came about, for people."""

    @property
    def of_records(self) -> "Sequence[Move | Create | Touch | Forget | ClaimRequest | BorrowRequest]":
        """The changes that concern records: that an iteration begins does not."""
        return [change for change in self.changes if not isinstance(change, Begin)]

    @property
    def requests(self) -> Sequence[ClaimRequest | BorrowRequest]:
        """The changes by which pilots take jobs."""
        return [change for change in self.changes if isinstance(change, ClaimRequest | BorrowRequest)]

    @property
    def moves(self) -> Sequence[Move]:
        """The changes that are moves."""
        return [change for change in self.changes if isinstance(change, Move)]
