"""Circuit breakers in words."""

from collections.abc import Iterable
from typing import Protocol

from pilotage.explain.remarks import numbered
from pilotage.explain.words import few
from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.values.phrases import moment


def line(breaker: CircuitBreaker, time: float, rules: bool = False) -> str:
    """Tell what a breaker holds back at a time, until when, why, and by which rule where ``rules`` are
    wanted."""
    text = f"{breaker.what}: {state(breaker, time)}: {breaker.reason}"
    return numbered(text, breaker.words.rule, rules)


def state(breaker: CircuitBreaker, time: float) -> str:
    """Tell the state of a breaker, and when a probe comes."""
    if breaker.state(time) == "open":
        return f"circuit breaker open until {moment(breaker.until)}"
    return f"circuit breaker half-open, {breaker.words.probe} probes it next"


class _TrippedBreaker(Protocol):
    @property
    def what(self) -> str: ...
    @property
    def reason(self) -> str: ...


def in_short(breakers: Iterable[_TrippedBreaker]) -> list[str]:
    """Return what breakers hold back and why; those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for breaker in breakers:
        by_reason.setdefault(breaker.reason, []).append(breaker.what)
    return [f"{few(list(dict.fromkeys(subjects)))}: {reason}" for reason, subjects in by_reason.items()]
