"""Circuit breakers: a place that fails repeatedly is paused, longer each time, and tried again after each
pause."""

from collections.abc import Callable, Iterable
from math import inf
from typing import Generic, NamedTuple, Protocol, TypeVar


class Timed(Protocol):
    """A failure with a time in s since 1970."""

    @property
    def time(self) -> float:
        """Time of the failure, in s since 1970 UTC."""


F = TypeVar("F", bound=Timed)


class Row(NamedTuple, Generic[F]):
    """``failures`` consecutive failures that paused a place, and its last pause, in s since 1970."""

    failures: int
    last: F
    since: float
    until: float


def followed(
    failures: Iterable[F], enough: Callable[[int, F], bool], rest_after: Callable[[int], float]
) -> Row[F] | None:
    """Follow failures over time. Return None if they never paused the place.

    A failure during a pause began before it, and does not count. ``enough`` decides for each counting
    failure, with its number in the row, whether the place is paused from then on. ``rest_after`` returns the
    seconds of the pause after a number of pauses.
    """
    count, times, since, until = 0, 0, 0.0, -inf
    last: F | None = None
    for failure in failures:
        if failure.time < until:
            continue
        count, last = count + 1, failure
        if enough(count, failure):
            since, until = failure.time, failure.time + rest_after(times)
            times += 1
    return Row(count, last, since, until) if last is not None and times else None
