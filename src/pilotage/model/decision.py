"""Decisions are data: what changes, what that rests on, and why.

A policy returns a :class:`Decision`; the store's commit applies what still holds of it and hands the rest
back. Records are changed in groups: one :class:`Move` takes many records of one kind through the same
transition with the same values, so that its cost in the store is that of a few statements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .states import Kind, State
from .work import File, NewJob, NewPilot, NewTask, NewTransfer, Replica

Value = int | float | str | bool | None
Mend = Literal["user", "operator", "wait"]
Creation = NewTask | NewJob | NewTransfer | NewPilot | File | Replica

KINDS: Mapping[type, Kind] = {NewTask: "task", NewJob: "job", NewTransfer: "transfer", NewPilot: "pilot"}
"""The kind of new records; files and replicas have no states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Capacity that a change takes: records counted under ``key`` in ``states`` must not exceed ``limit``.

    ``counter`` names one of the store's counters (``model.counters.COUNTERS``) and ``key`` a row of it, where
    None stands for any value. Of a change's records only as many are accepted as still fit.
    """

    counter: str
    key: tuple[str | int | None, ...]
    states: tuple[State, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Records of one kind that make the same transition.

    ``attempts``, where given, is as long as ``ids``: a record whose attempt differs is handed back, which
    fences whoever comes back from the dead. ``next_attempt`` adds one to the attempt. ``changes`` sets
    columns to the same value on every record. ``creates`` holds new records by the id that they rest on:
    they come into being only if that record's move is accepted. ``choice`` is the index in
    ``Decision.choices`` of the reason.
    """

    kind: Kind
    ids: tuple[int, ...]
    source: State
    target: State
    cause: str
    attempts: tuple[int, ...] | None = None
    next_attempt: bool = False
    changes: Mapping[str, Value] = field(default_factory=dict)
    creates: Mapping[int, tuple[Creation, ...]] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    choice: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """New records that rest on nothing but the capacity they claim."""

    records: tuple[Creation, ...]
    cause: str
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """Columns set on live records without a transition: heartbeats, references, priorities. No event."""

    kind: Kind
    ids: tuple[int, ...]
    changes: Mapping[str, Value]
    attempts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Replicas that were found missing or altered where they are recorded: they count no more. No event."""

    replicas: tuple[Replica, ...]


Change = Move | Create | Touch | Forget


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What became of a decision, aligned with its changes.

    ``accepted`` holds the ids of each change's records that were moved or touched; ``created`` the ids of the
    records that came into being, in order, None where one was there already or did not fit.
    """

    accepted: tuple[tuple[int, ...], ...] = ()
    created: tuple[tuple[int | None, ...], ...] = ()
    handed_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """What put candidates in their order instead of their weight: the lowest key first."""

    rule: str
    name: str
    keys: tuple[float, ...]
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Queues that passed every check, best first, with each factor of their weight by rule number.

    The best is that of the highest weight, unless there is an ``ordering``.
    """

    queues: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    factors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    ordering: Ordering | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A field of the task and how a need comes of it: ``need = (fixed + each * value) * factor``.

    ``each`` is None where it differs by queue; the need there tells it. Of ``each * value`` less than
    ``least`` counts as that much.
    """

    field: str
    value: int | float
    fixed: float = 0.0
    each: float | None = None
    factor: float = 1.0
    least: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One check and all the queues it refuses: what was needed and what each of them has.

    ``have`` is as long as ``queues``; a ``need`` that differs by queue is a tuple of that length too.
    ``asked`` are the fields that the user could change where no queue fits, what is best changed first.
    """

    rule: str
    name: str
    mend: Mend
    queues: tuple[str, ...]
    have: tuple[Value, ...]
    need: Value | tuple[Value, ...]
    unit: str = ""
    lifted_by: str = ""
    asked: tuple[Asked, ...] = ()

    def asking(self, asked: tuple[Asked, ...]) -> "Refusal":
        """The same with these fields: written out, since every choice makes some, and ``replace`` is slow."""
        return Refusal(
            rule=self.rule,
            name=self.name,
            mend=self.mend,
            queues=self.queues,
            have=self.have,
            need=self.need,
            unit=self.unit,
            lifted_by=self.lifted_by,
            asked=asked,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Why a group of like jobs of one task went where it went, or nowhere.

    ``placed`` counts jobs by queue. Every queue considered is a candidate or stands in at least one
    refusal. ``jobs`` are those placed or made pending; ``left`` counts those that stay DEFINED for the next
    pass, because nothing but the number of waiting jobs stands in their way. ``waived`` are the checks
    that candidates would have failed had the task not named its queues (B2).
    """

    task: int
    job_kind: str
    jobs: tuple[int, ...]
    placed: Mapping[str, int]
    considered: int
    candidates: Candidates
    refusals: tuple[Refusal, ...]
    left: int = 0
    waived: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedChoice(Choice):
    """A stored choice and when it was made, in s since 1970 UTC."""

    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one step decided from one world. ``time`` and ``seed`` are the world's."""

    step: str
    time: float
    seed: int
    changes: tuple[Change, ...] = ()
    choices: tuple[Choice, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def moves(self) -> Sequence[Move]:
        """The changes that are moves."""
        return [change for change in self.changes if isinstance(change, Move)]
