"""One circuit breaker for all: its states, its transitions, and how long it stays open.

- *closed*: the place does well. It has no record.
- *open*: failures have tripped it. Until a time, the place gets nothing.
- *half-open*: that time is over. One probe goes there. If it fails, the breaker opens again, for longer
  each time; if it does well, the breaker closes.

An operator may lift a breaker: it closes, and earlier failures stop counting.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from pilotage.model.values.identity import Owners, includes
from pilotage.model.values.phrases import moment
from pilotage.model.values.types import DESCRIBED

OTHERS_ERROR = "an error of another owner's job, which operators can read"

Kind = Literal["server", "list-match", "empty-pilots", "queue", "node", "storage"]
State = Literal["open", "half-open"]

Scope = tuple[str, str, int]
"""Whose jobs a breaker holds back: VO, owner and task; a task of 0 is all tasks of the owner."""

EVERYBODY: Scope = ("", "", 0)

Key = tuple[Kind, str, str]
"""A kind, and the two parts of a place."""


class BreakerWords(NamedTuple):
    """A kind in words: the rule that trips it, what probes it, and how that fails, once and several times."""

    rule: str
    probe: str
    failure: str
    failures: str


WORDS: Mapping[Kind, BreakerWords] = {
    "server": BreakerWords(
        "P6",
        "one pilot",
        "1 pilot failed before it called home",
        "pilots failed before they called home",
    ),
    "list-match": BreakerWords(
        "P8", "one question", "1 list-match was not answered", "list-matches were not answered"
    ),
    "empty-pilots": BreakerWords("P12", "one pilot", "1 pilot was sent in vain", "pilots were sent in vain"),
    "queue": BreakerWords("F2", "one job", "1 job failed fast", "jobs failed fast"),
    "node": BreakerWords("F2", "one job", "1 job failed fast", "jobs failed fast"),
    "storage": BreakerWords("F4", "one delivery", "1 delivery failed", "deliveries failed"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """A breaker that failures have tripped; times in s since 1970 UTC.

    ``place`` has two parts:

    - ``server``, ``list-match``: the queue and its server.
    - ``empty-pilots``: the queue and what its nodes lack.
    - ``queue``, ``node``: the queue and its node.
    - ``storage``: the source and the destination.

    An empty second part, or source, means any.
    """

    __pydantic_config__ = DESCRIBED

    kind: Kind
    """What it guards."""
    place: tuple[str, str]
    """Where."""
    whose: Scope = EVERYBODY
    """Whose jobs it holds back: VO, owner and task; empty and 0 stand for all."""
    since: float
    """When it opened."""
    until: float
    """When it becomes half-open: one probe passes from then on."""
    failures: int
    """Failures in a row that count."""
    error: str
    """The last of them, in one line."""

    def state(self, time: float) -> State:
        """Its state at a time: a record is never closed."""
        return "open" if time < self.until else "half-open"

    @property
    def forgotten(self) -> float:
        """When it closes without a probe: if no failure follows for as long as it was open (F4)."""
        return self.until + (self.until - self.since)

    @property
    def words(self) -> BreakerWords:
        """Its kind in words."""
        return WORDS[self.kind]

    @property
    def key(self) -> Key:
        """Its kind and place."""
        return self.kind, *self.place

    @property
    def whom(self) -> str:
        """The task or the owner that it concerns, in words."""
        _, owner, task = self.whose
        return f"task {task}" if task else (owner or "everybody")

    @property
    def what(self) -> str:
        """The work that it holds back, in words."""
        first, second = self.place
        if self.kind == "storage":
            if first and second:
                return f"moving from {first} to {second}"
            return f"reading from {first}" if first else f"writing to {second}"
        if self.kind in ("queue", "node"):
            return f"jobs at {'/'.join(filter(None, self.place))} for {self.whom}"
        if self.kind == "empty-pilots":
            return f"pilots at {first}" + (f" for jobs that need {second}" if second else "")
        subject = "pilots at" if self.kind == "server" else "list-match at"
        return f"{subject} {'/'.join(filter(None, self.place))}"

    @property
    def names(self) -> frozenset[str]:
        """Names of the places that it guards. An operator lifts it by any of them."""
        first, second = self.place
        places = {first, second} if self.kind in ("storage", "node") else {first}
        if self.kind in ("node", "server", "list-match") and second:
            places.add(f"{first}/{second}")
        return frozenset(places - {""})

    @property
    def text(self) -> str:
        """Until when it is open, and why, in words."""
        return f"circuit breaker open until {moment(self.until)}: {self.reason}"

    @property
    def sentence(self) -> str:
        """The work that it holds back, until when, and why, in words."""
        return f"{self.what}: {self.text}"

    def line(self, time: float) -> str:
        """Describe it at a time: the work that it holds back, its state, and why."""
        if self.state(time) == "open":
            return self.sentence
        return f"{self.what}: circuit breaker half-open, {self.words.probe} probes it next: {self.reason}"

    @property
    def reason(self) -> str:
        """Why it opened, in words."""
        last = self.error or "no reason was given"
        if self.failures == 1:
            return f"{self.words.failure}: {last}"
        return f"{self.failures} {self.words.failures}, one after the other; the last: {last}"

    def holds_for(self, vo: str, owner: str, task: int) -> bool:
        """Return whether it concerns the jobs of a task."""
        return self.whose in scopes(vo, owner, task)

    def concerns(self, source: str, destination: str) -> bool:
        """Return whether it concerns files that move between two storages."""
        return self.place[0] in ("", source) and self.place[1] in ("", destination)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftedBreaker:
    """A breaker that an operator has lifted. Earlier failures do not count."""

    __pydantic_config__ = DESCRIBED

    kind: Kind
    """What it guards."""
    place: tuple[str, str]
    """Where."""
    time: float
    """When it was lifted, in s since 1970 UTC."""


def scopes(vo: str, owner: str, task: int) -> tuple[Scope, Scope, Scope]:
    """The scopes that a task is in."""
    return (vo, owner, task), (vo, owner, 0), EVERYBODY


def open_at(breakers: Iterable[CircuitBreaker], time: float) -> tuple[CircuitBreaker, ...]:
    """The breakers that are open at a time, not half-open."""
    return tuple(breaker for breaker in breakers if breaker.state(time) == "open")


def lifted_at(lifted: Iterable[LiftedBreaker], kind: Kind, *place: str) -> float:
    """When a breaker was lifted, in s since 1970 UTC; minus infinity where it was not."""
    return max(
        (breaker.time for breaker in lifted if breaker.kind == kind and breaker.place == place), default=-inf
    )


class Timed(Protocol):
    """A failure, at a time in s since 1970."""

    @property
    def time(self) -> float:
        """Time of the failure, in s since 1970 UTC."""


F = TypeVar("F", bound=Timed)


class Tripped(NamedTuple, Generic[F]):
    """A breaker after failures: how many count, how often it opened, and when last (s since 1970)."""

    failures: int = 0
    openings: int = 0
    last: F | None = None
    since: float = 0.0
    until: float = -inf

    def after(self, failure: F, trips: Callable[[F], bool], open_for: Callable[[int], float]) -> "Tripped[F]":
        """The breaker after one more failure.

        A failure while it is open does not count, because its work began before. ``trips`` returns whether a
        failure opens the breaker, and ``open_for`` for how many s after so many openings.
        """
        if failure.time < self.until:
            return self
        counted = self._replace(failures=self.failures + 1, last=failure)
        if not trips(failure):
            return counted
        until = failure.time + open_for(self.openings)
        return counted._replace(openings=self.openings + 1, since=failure.time, until=until)

    def breaker(
        self, kind: Kind, place: tuple[str, str], error: str, scope: Scope = EVERYBODY
    ) -> CircuitBreaker:
        """The record of it."""
        return CircuitBreaker(
            kind=kind,
            place=place,
            whose=scope,
            since=self.since,
            until=self.until,
            failures=self.failures,
            error=error,
        )


def followed(
    failures: Iterable[F], trips: Callable[[F], bool], open_for: Callable[[int], float]
) -> Tripped[F] | None:
    """Follow failures in time; None where they never tripped the breaker."""
    tripped: Tripped[F] = Tripped()
    for failure in failures:
        tripped = tripped.after(failure, trips, open_for)
    return tripped if tripped.openings else None


class FailedBatch(NamedTuple):
    """A failure of something sent in a batch. Failures of one batch count as one failure of the place."""

    time: float
    batch: float
    error: str


def each_opens(
    failures: Iterable[FailedBatch], open_for: Callable[[int], float]
) -> Tripped[FailedBatch] | None:
    """Open for each batch that failed, whenever it was sent; None where none did."""
    ordered = sorted(failures)
    if not ordered:
        return None
    batches, last = len({failure.batch for failure in ordered}), ordered[-1]
    return Tripped(batches, batches, last, last.time, last.time + open_for(batches - 1))


def seen_by(breakers: Iterable[CircuitBreaker], owners: Owners) -> tuple[CircuitBreaker, ...]:
    """Return the breakers that concern work of some owners, without errors of others' payloads."""
    if owners is None:
        return tuple(breakers)
    return tuple(
        without_payload_error(breaker)
        for breaker in breakers
        if breaker.whose == EVERYBODY or includes(owners, breaker.whose[1], breaker.whose[0])
    )


def without_payload_error(breaker: CircuitBreaker) -> CircuitBreaker:
    """Return a breaker without its error if the error may come from another owner's job.

    Any owner's job can trip the breaker of a queue or node for everybody. A breaker of one owner shows only
    that owner's errors.
    """
    is_of_others = breaker.kind in ("queue", "node") and breaker.whose == EVERYBODY
    return replace(breaker, error=OTHERS_ERROR) if is_of_others else breaker
