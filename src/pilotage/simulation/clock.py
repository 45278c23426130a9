"""A virtual clock: time passes from event to event."""

import heapq
from collections.abc import Callable
from itertools import count
from math import inf


class VirtualClock:
    """A clock that only ``advance`` moves, in s since 1970 (UTC)."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def __call__(self) -> float:
        """Return the current time."""
        return self._now

    def after(self, delay: float, happen: Callable[[], None]) -> None:
        """Run a callback ``delay`` s from now.

        At the same time, callbacks run in the order of the requests.
        """
        heapq.heappush(self._events, (self._now + max(0.0, delay), next(self._numbers), happen))

    @property
    def next_event(self) -> float:
        """Return the time of the next event; infinity if there is none."""
        return self._events[0][0] if self._events else inf

    def advance(self, until: float) -> None:
        """Run all events up to a time, including events that these cause."""
        while self._events and self._events[0][0] <= until:
            self._now, _, happen = heapq.heappop(self._events)
            happen()
        self._now = until
