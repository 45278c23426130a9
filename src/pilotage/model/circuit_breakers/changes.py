"""Changes of circuit breakers: which have opened, become half-open or closed since they were last noted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, Key, Scope, State
from pilotage.model.values.types import DESCRIBED

BreakerState = Literal["closed"] | State

MOST_CHANGES = 500
"""Most changes that are noted together; the others follow."""

NotedKey = tuple[Key, Scope]
"""Identifies a noted breaker: its kind and place, and the jobs that it holds back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerChange:
    """A breaker that went from one state to another. A closed one has no record."""

    __pydantic_config__ = DESCRIBED

    key: Key
    """Its kind and place."""
    whose: Scope
    """Whose jobs it holds back: VO, owner and task."""
    source: BreakerState
    """The state before."""
    target: BreakerState
    """The state now."""
    cause: str
    """What it holds back and why, in words, without an owner's name: some changes are shown to everybody."""


def breaker_changes(
    noted: Mapping[NotedKey, BreakerState], tripped: Iterable[CircuitBreaker], time: float
) -> tuple[BreakerChange, ...]:
    """Return how the breakers that have tripped differ at a time from the noted ones, by kind and place."""
    now = {(breaker.key, breaker.whose): breaker for breaker in tripped}
    changes = []
    for key in sorted({*noted, *now}):
        before, breaker = noted.get(key, "closed"), now.get(key)
        after: BreakerState = breaker.state(time) if breaker else "closed"
        if before != after:
            changes.append(
                BreakerChange(key=key[0], whose=key[1], source=before, target=after, cause=_cause(key))
            )
    return tuple(changes[:MOST_CHANGES])


def _cause(key: NotedKey) -> str:
    (kind, first, second), (_, owner, task) = key
    scope = ("", "one person" if owner else "", task)
    breaker = CircuitBreaker(
        kind=kind, place=(first, second), whose=scope, since=0, until=0, failures=0, error=""
    )
    return f"{breaker.what}: {breaker.words.failures}"
