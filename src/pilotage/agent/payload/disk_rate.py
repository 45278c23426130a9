"""Disk I/O of a running payload: when to report it to the server (B12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ..pilot_job import PilotJob
from ..wire import Point, Report

FIRST, EVERY = 60.0, 300.0
"""Seconds before the first report of a payload's rate, and between two measurements. Each report costs the
server more than a heartbeat."""
ANSWER = 1.0
"""Seconds that a supervisor may take to send its time line."""
PART, LEAST = 0.2, 10.0
"""Report a rate again if it changed by more than this part, and by more than this many kB/s per core."""


async def watch(job: PilotJob, say: Callable[[Report], None]) -> None:
    """Report the disk I/O of a running attempt from time to time, until cancelled."""
    rate = DiskRate(job.attempt.cores)
    await asyncio.sleep(FIRST)
    while job.payload and not job.dropped:
        job.payload.points_so_far()
        await asyncio.sleep(ANSWER)
        news = rate.news(job.payload.points_so_far())
        if news is not None and not job.dropped:
            say(Report(*job.attempt.pair, "running", disk_io=news))
        await asyncio.sleep(EVERY)


class DiskRate:
    """The rate of one payload on ``cores`` cores since the last measurement."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._second = self._kilobytes = 0.0
        self._told: float | None = None

    def news(self, points: Sequence[Point]) -> float | None:
        """Return the rate since the last call, in kB/s per core; None if it is unknown or hardly changed."""
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
