"""Reasons in columns: what the choices of a pass share is stored once, and texts for people are made on
reading.

A pass refuses millions of pairs of task and queue. So a refusal stores its queues as bits, and their values
as a column that all choices of the pass share.
"""

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from math import isnan, prod
from typing import Protocol, overload

from pilotage.model.documents.decision import Asked, Candidates, Choice, Label, Ordering, Refusal, Value

Values = Sequence[Value]
"""Floats as an ``array("d")``, where NaN means None; anything else as a tuple."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The values of the queues, as an index of a column of the facts."""

    column: int


Given = Value | Shared | Values
"""One value for all refused queues, a column that choices share, or a value for each queue in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts that the choices of a pass share: queues by number, labels of checks, values of queues."""

    queues: Sequence[str]
    labels: tuple[Label, ...]
    columns: tuple[Values, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRefusal:
    """One check of ``Facts.labels`` and the queues that it refuses. Bit n % 8 of byte n // 8 is queue n."""

    label: int
    queues: bytes
    need: Given
    have: Given
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedCandidates:
    """Queues by number, best first, with columns of the same length.

    Without ``weights``, the weights are the product of the factors: the first one times the product of the
    others.
    """

    queues: "array[int]" = field(default_factory=lambda: array("I"))
    weights: "array[float] | None" = None
    factors: Mapping[str, "array[float]"] = field(default_factory=dict)
    room: "array[int]" = field(default_factory=lambda: array("q"))
    ordering: Ordering | None = None
    most: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedChoice:
    """A ``Choice`` that refers to facts."""

    task: int
    job_kind: str
    jobs: tuple[int, ...]
    placed: Mapping[str, int]
    considered: int
    left: int
    candidates: PackedCandidates
    refusals: tuple[PackedRefusal, ...]
    waived: tuple[PackedRefusal, ...]


class Packable(Protocol):
    """A choice as its policy keeps it, which can supply its reasons in columns."""

    @abstractmethod
    def packed(self) -> PackedChoice:
        """Return the reasons in columns."""


class Choices(Sequence[Choice]):
    """The choices of a pass.

    Each is made when it is read, and the whole equals a tuple of the same choices.
    """

    def __init__(self, facts: Callable[[], Facts], items: Sequence[Packable]) -> None:
        self._facts = facts
        self._items = items

    @cached_property
    def facts(self) -> Facts:
        """Return the facts that they share."""
        return self._facts()

    def packed(self, places: Iterable[int]) -> list[PackedChoice]:
        """Return the choices at these places, in columns."""
        return [self._items[place].packed() for place in places]

    @overload
    def __getitem__(self, place: int) -> Choice: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Choice, ...]: ...
    def __getitem__(self, place: int | slice) -> Choice | tuple[Choice, ...]:
        if isinstance(place, slice):
            return tuple(unpacked(item.packed(), self.facts) for item in self._items[place])
        return unpacked(self._items[place].packed(), self.facts)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(other) == len(self) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def packed(
    choices: Sequence[Choice], places: Sequence[int] | None = None
) -> tuple[Facts, list[PackedChoice]]:
    """Return any choices in columns, or those at some places.

    Choices that a brokerage made one by one share only names and labels. Their refused queues then come in
    the order of the names.
    """
    if places is None:
        places = range(len(choices))
    if isinstance(choices, Choices):
        return choices.facts, choices.packed(places)
    choices = [choices[place] for place in places]
    names = {name: number for number, name in enumerate(sorted(_names(choices)))}
    labels: dict[Label, int] = {}
    packed_choices = [_packed(choice, names, labels) for choice in choices]
    return Facts(queues=tuple(names), labels=tuple(labels), columns=()), packed_choices


def _names(choices: Sequence[Choice]) -> set[str]:
    names = {name for choice in choices for name in choice.candidates.queues}
    for choice in choices:
        names.update(name for refusal in (*choice.refusals, *choice.waived) for name in refusal.queues)
    return names


def unpacked(choice: PackedChoice, facts: Facts) -> Choice:
    """Return the choice for a person to read."""
    candidates, names = choice.candidates, facts.queues
    return Choice(
        task=choice.task,
        job_kind=choice.job_kind,
        jobs=choice.jobs,
        placed=choice.placed,
        considered=choice.considered,
        candidates=Candidates(
            queues=tuple([names[number] for number in candidates.queues]),
            weights=_weights(candidates),
            factors={rule: tuple(values) for rule, values in candidates.factors.items()},
            ordering=candidates.ordering,
            room=tuple(candidates.room),
            most=candidates.most,
        ),
        refusals=tuple(unpacked_refusal(refusal, facts) for refusal in choice.refusals),
        left=choice.left,
        waived=tuple(unpacked_refusal(refusal, facts) for refusal in choice.waived),
    )


def _weights(candidates: PackedCandidates) -> tuple[float, ...]:
    if candidates.weights is not None:
        return tuple(candidates.weights)
    first, *further = candidates.factors.values()
    return tuple([value * prod(rest) for value, *rest in zip(first, *further, strict=True)])


def unpacked_refusal(refusal: PackedRefusal, facts: Facts) -> Refusal:
    """Return the refusal for a person to read."""
    label, places = facts.labels[refusal.label], numbers(refusal.queues)
    need = _values(refusal.need, places, facts)
    has = _values(refusal.have, places, facts)
    return Refusal(
        rule=label.rule,
        name=label.name,
        mend=label.mend,
        queues=tuple([facts.queues[place] for place in places]),
        have=has if isinstance(has, tuple) else (has,) * len(places),
        # Reduce equal needs to one, so that a refusal does not reveal the other jobs examined with it.
        need=need[0] if isinstance(need, tuple) and need.count(need[0]) == len(need) else need,
        unit=label.unit,
        lifted_by=label.lifted_by,
        asked=refusal.asked,
    )


def numbers(bits: bytes) -> list[int]:
    """Return the numbers of the queues with a set bit."""
    # Converting to one number and its digits is much faster than going byte by byte.
    digits = format(int.from_bytes(bits, "little"), "b")[::-1]
    return list(compress(range(len(digits)), map(int, digits)))


def _values(values: Given, places: Sequence[int], facts: Facts) -> Value | tuple[Value, ...]:
    if isinstance(values, Shared):
        column = facts.columns[values.column]
        return _plain_values([column[place] for place in places], column)
    return _plain_values(values, values) if isinstance(values, array | tuple) else values  # type: ignore[return-value]


def _plain_values(values: Values, column: Values) -> tuple[Value, ...]:
    if isinstance(column, array):
        return tuple([None if isnan(value) else value for value in values])  # type: ignore[arg-type]
    return tuple(values)


def _packed(choice: Choice, names: Mapping[str, int], labels: dict[Label, int]) -> PackedChoice:
    candidates = choice.candidates
    return PackedChoice(
        task=choice.task,
        job_kind=choice.job_kind,
        jobs=choice.jobs,
        placed=choice.placed,
        considered=choice.considered,
        left=choice.left,
        candidates=PackedCandidates(
            queues=array("I", [names[name] for name in candidates.queues]),
            weights=array("d", candidates.weights),
            factors={rule: array("d", values) for rule, values in candidates.factors.items()},
            room=array("q", candidates.room),
            ordering=candidates.ordering,
            most=candidates.most,
        ),
        refusals=tuple(_packed_refusal(refusal, names, labels) for refusal in choice.refusals),
        waived=tuple(_packed_refusal(refusal, names, labels) for refusal in choice.waived),
    )


def _packed_refusal(refusal: Refusal, names: Mapping[str, int], labels: dict[Label, int]) -> PackedRefusal:
    places = [names[name] for name in refusal.queues]
    order = sorted(range(len(places)), key=places.__getitem__)
    bits = bytearray(max(places, default=0) // 8 + 1)
    for place in places:
        bits[place // 8] |= 1 << place % 8
    need = refusal.need
    return PackedRefusal(
        label=labels.setdefault(refusal.label, len(labels)),
        queues=bytes(bits),
        need=tuple([need[place] for place in order]) if isinstance(need, tuple) else need,
        have=tuple([refusal.have[place] for place in order]),
        asked=refusal.asked,
    )
