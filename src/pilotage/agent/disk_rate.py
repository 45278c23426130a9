"""The disk I/O of a payload that runs: how much of it the server should know (B12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from .held import Held
from .wire import Point, Report

FIRST, EVERY = 60.0, 300.0
"""Seconds before a payload's first rate is told, and between two looks at it.

Each report costs the server more than a heartbeat."""
ANSWER = 1.0
"""Seconds in which a supervisor tells its time line."""
PART, LEAST = 0.2, 10.0
"""A rate is told again where it differs by more than this part, and by more than so many kB/s per core."""


async def watch(held: Held, say: Callable[[Report], None]) -> None:
    """Report the disk I/O of an attempt that runs, now and then, until this is cancelled."""
    rate = DiskRate(held.attempt.cores)
    await asyncio.sleep(FIRST)
    while held.payload and not held.dropped:
        held.payload.points_so_far()
        await asyncio.sleep(ANSWER)
        news = rate.news(held.payload.points_so_far())
        if news is not None and not held.dropped:
            say(Report(*held.attempt.pair, "running", disk_io=news))
        await asyncio.sleep(EVERY)


class DiskRate:
    """The rate of one payload on ``cores`` cores, between one look at its time line and the next."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._second = self._kilobytes = 0.0
        self._told: float | None = None

    def news(self, points: Sequence[Point]) -> float | None:
        """Return the rate since the last look, in kB/s per core; None where it is no news, or not known."""
        if not points or points[-1][0] <= self._second:
            return None
        second, kilobytes = points[-1][0], points[-1][3] + points[-1][4]
        moved = max(0.0, kilobytes - self._kilobytes)
        rate = round(moved / (second - self._second) / self._cores, 3)
        self._second, self._kilobytes = second, kilobytes
        if self._told is not None and abs(rate - self._told) <= max(LEAST, PART * self._told):
            return None
        self._told = rate
        return rate
