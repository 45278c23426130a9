"""Circuit breakers in words."""

from collections.abc import Iterable
from typing import Protocol

from pilotage.explain.remarks import numbered
from pilotage.explain.words import few
from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.values.phrases import moment


def line(breaker: CircuitBreaker, time: float, rules: bool = False) -> str:
    """Describe a breaker: its subject, its state, and the reason; with ``rules`` also its rule."""
    text = f"{breaker.what}: {state(breaker, time)}: {breaker.reason}"
    return numbered(text, breaker.words.rule, rules)


def state(breaker: CircuitBreaker, time: float) -> str:
    """Describe the state of a breaker, and when it is probed."""
    if breaker.state(time) == "open":
        return f"circuit breaker open until {moment(breaker.until)}"
    return f"circuit breaker half-open, {breaker.words.probe} probes it next"


class _TrippedBreaker(Protocol):
    @property
    def what(self) -> str: ...
    @property
    def reason(self) -> str: ...


def in_short(breakers: Iterable[_TrippedBreaker]) -> list[str]:
    """Return the subjects of breakers, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for breaker in breakers:
        by_reason.setdefault(breaker.reason, []).append(breaker.what)
    return [f"{few(list(dict.fromkeys(subjects)))}: {reason}" for reason, subjects in by_reason.items()]
