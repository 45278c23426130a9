"""A virtual clock: time passes from event to event."""

import heapq
from collections.abc import Callable
from itertools import count
from math import inf


class VirtualClock:
    """Tells a time that passes only when :meth:`advance` is called, in s since 1970 (UTC)."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def __call__(self) -> float:
        """The time now."""
        return self._now

    def after(self, delay: float, happen: Callable[[], None]) -> None:
        """Let something happen ``delay`` s from now; of two at the same time the first asked for is first."""
        heapq.heappush(self._events, (self._now + max(0.0, delay), next(self._numbers), happen))

    @property
    def next_event(self) -> float:
        """Time of the next event; infinity where nothing is to happen."""
        return self._events[0][0] if self._events else inf

    def advance(self, until: float) -> None:
        """Let all happen that is to happen up to a time, and what follows from it up to then."""
        while self._events and self._events[0][0] <= until:
            self._now, _, happen = heapq.heappop(self._events)
            happen()
        self._now = until
