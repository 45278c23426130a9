"""Circuit breakers in words."""

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.values.phrases import moment


def line(breaker: CircuitBreaker, time: float) -> str:
    """Tell what a breaker holds back at a time, until when, why, and by which rule."""
    return f"{breaker.what}: {state(breaker, time)}: {breaker.reason} ({breaker.words.rule})"


def state(breaker: CircuitBreaker, time: float) -> str:
    """Tell the state of a breaker, and when a probe comes."""
    if breaker.state(time) == "open":
        return f"circuit breaker open until {moment(breaker.until)}"
    return f"circuit breaker half-open, {breaker.words.probe} probes it next"
