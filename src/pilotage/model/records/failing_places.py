"""Places that fail again and again rest, longer each time; once a rest is over, the place is tried again."""

from collections.abc import Callable, Iterable
from math import inf
from typing import Generic, NamedTuple, Protocol, TypeVar


class Timed(Protocol):
    """A failure, at a time in s since 1970."""

    @property
    def time(self) -> float:
        """Time of the failure, in s since 1970 UTC."""


F = TypeVar("F", bound=Timed)


class Row(NamedTuple, Generic[F]):
    """Failures in a row that made a place rest, ``failures`` of them, and its last rest, in s since 1970."""

    failures: int
    last: F
    since: float
    until: float


def followed(
    failures: Iterable[F], enough: Callable[[int, F], bool], rest_after: Callable[[int], float]
) -> Row[F] | None:
    """Follow failures in time; None where they made the place rest never.

    What fails during a rest was under way before it, and counts nothing. ``enough`` is asked of each that
    counts, with its number in the row, whether the place rests from then on; ``rest_after`` tells for how
    many s, after so many rests.
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
