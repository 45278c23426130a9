"""The time line of a payload: its usage at a few moments, spaced further apart the longer it runs."""

# ruff: noqa: PTH123
from __future__ import annotations

import os

from ..machine import now
from .network_use import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_POINTS = 60
FIRST_DISTANCE = 1.0
"""Seconds between points at first."""
BLOCK = 512
"""Bytes of a block in which the kernel counts disk I/O."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Timeline:
    """Points of a payload, tuples like ``wire.Point``. When there are too many, every second one goes."""

    def __init__(self) -> None:
        self.points: list[tuple[float, ...]] = []
        self._network = Network()
        self._begun, self._distance = now(), FIRST_DISTANCE
        self._due = self._begun + self._distance

    def look(self, processes: Sequence[int], memory: int, cpu: float, read: int, written: int) -> None:
        """Add a point if one is due. ``cpu`` (s) and disk I/O (bytes) belong to processes that have ended."""
        if now() < self._due:
            return
        received, sent = self._network.look(processes)
        for process in processes:
            cpu += cpu_seconds(process)
            more = disk_io(process)
            read, written = read + more[0], written + more[1]
        kilobytes = (round(count / 1000, 1) for count in (read, written, received, sent))
        point = (round(now() - self._begun, 1), round(cpu, 2), round(memory / 1e6, 1), *kilobytes)
        self.points.append(point)
        if len(self.points) >= MOST_POINTS:
            # Start with the first: the newest point stays.
            del self.points[::2]
            self._distance *= 2
        self._due = now() + self._distance


def cpu_seconds(process: int) -> float:
    """Return the CPU time in s of a process and the children that it waited for; 0 if it has ended."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:
            # The process's name is in brackets, and may itself contain brackets.
            return sum(map(int, stat.read().rpartition(b")")[2].split()[11:15])) / _TICKS
    except OSError:
        return 0.0


def disk_io(process: int) -> tuple[int, int]:
    """Return the bytes that a process and the children that it waited for read from disks and wrote to
    them."""
    try:
        with open(f"/proc/{process}/io", "rb") as lines:
            counts = dict(line.split(b": ") for line in lines)
        return int(counts[b"read_bytes"]), int(counts[b"write_bytes"])
    except (OSError, KeyError, ValueError):
        return 0, 0
