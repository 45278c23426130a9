"""Whose circuit breakers and errors a person sees: payloads write errors, which are their owners' alone."""

from collections.abc import Iterable
from dataclasses import replace

from pilotage.model.circuit_breakers.breaker import EVERYBODY, CircuitBreaker
from pilotage.model.values.identity import Identity

OTHERS_ERROR = "an error of somebody's job, which operators read"


def seen_by(breakers: Iterable[CircuitBreaker], person: Identity | None) -> tuple[CircuitBreaker, ...]:
    """Return the breakers that concern a person's work, without errors of others' payloads; None: all."""
    if person is None:
        return tuple(breakers)
    own = (person.vo, person.name)
    return tuple(without_payload_error(one) for one in breakers if one.whose[:2] in (own, EVERYBODY[:2]))


def without_payload_error(breaker: CircuitBreaker) -> CircuitBreaker:
    """Return a breaker as anybody may see whom it concerns.

    Jobs of any owner trip the breakers of everybody. What a breaker of one owner shows is that owner's.
    """
    is_of_others = breaker.kind in ("queue", "node") and breaker.whose == EVERYBODY
    return replace(breaker, error=OTHERS_ERROR) if is_of_others else breaker
