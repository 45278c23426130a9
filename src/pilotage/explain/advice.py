"""Advice to users: the value of a task's field that would make a check pass at a queue."""

from collections.abc import Iterator
from math import ceil, floor, log10
from typing import cast

from pilotage.model.documents.decision import Asked, Refusal, Value

MARGIN = 1e-9
"""Part of a queue's limit that advice leaves unused where it cannot repeat the check's arithmetic exactly."""

SMALLEST = 1e-6
"""Smallest value to advise."""

Advice = tuple[str, int | float]


def find_advice(refusal: Refusal, place: int) -> Advice | None:
    """Return the field and value that the queue at this index would accept; None if no single field helps."""
    for request in refusal.asked:
        if request.instead is not None:
            return request.field, request.instead
    numbers = numbers_at(refusal, place)
    if numbers is None:
        return None
    advices = ((request.field, _value(request, *numbers)) for request in refusal.asked)
    return next(((field, value) for field, value in advices if value is not None), None)


def asked_at(refusal: Refusal, place: int) -> float | None:
    """Return the user's total request, if the check counted another number."""
    numbers = numbers_at(refusal, place)
    factor = refusal.asked[0].factor if refusal.asked else 1.0
    return None if numbers is None or factor in (0, 1) else numbers[0] / factor


def need_at(refusal: Refusal, place: int) -> Value:
    """Return the need at the queue at this index."""
    return refusal.need[place] if isinstance(refusal.need, tuple) else refusal.need


def numbers_at(refusal: Refusal, place: int) -> tuple[float, float] | None:
    """Return need and have if both are numbers."""
    pair = need_at(refusal, place), refusal.have[place]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in pair):
        return cast(tuple[float, float], pair)
    return None


def _value(request: Asked, need: float, have: float) -> int | float | None:
    """Return the value closest to the request that meets the need; None if there is none.

    If a factor is below 1, never advise less: the site would end a job that uses its whole request.
    """
    if request.factor <= 0:
        return None
    less = need >= have
    factor = max(request.factor, 1.0) if less else request.factor
    each, limit = request.each, have
    if each is None:
        # Compute the need per requested unit, backwards from the one known need.
        each = (need / request.factor - request.fixed) / request.value if request.value else 0.0
        limit = have * (1 - MARGIN) if less else have * (1 + MARGIN)
    room = limit / factor - request.fixed
    if each <= 0 or room <= request.least or room / each < SMALLEST:
        return None
    for value in _rounded(room / each, whole=isinstance(request.value, int), down=less):
        total = (request.fixed + each * value) * factor
        if total <= limit if less else total >= limit:
            return value if value > 0 else None
    return None


def _rounded(value: float, *, whole: bool, down: bool) -> Iterator[int | float]:
    """Yield the nearest value, whole or with three digits if that is finer, then the next two."""
    digits = 0 if whole or value >= 100 else 2 - floor(log10(value))
    scaled = value * 10.0**digits
    nearest = floor(scaled + MARGIN) if down else ceil(scaled - MARGIN)
    # Rounding and the check's arithmetic may each be off by one, so try the values beyond too.
    for step in range(3):
        number = nearest - step if down else nearest + step
        yield number if digits == 0 else number / 10.0**digits
