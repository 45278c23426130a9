"""Logs as pilots send them and the store keeps them: beginning and end of a stream, and time lines."""

from dataclasses import dataclass
from typing import Literal

Point = tuple[float, float, float, float, float, float, float]
"""A moment of a payload: s since its start, s of CPU time so far, MB of memory then; kB so far: read from
disks, written to them, received from the network and sent to it."""
LogStream = Literal["stdout", "stderr", "agent", "usage", "node"]
"""What a payload wrote, what a pilot's agent wrote, the time line of a payload, what a pilot's node has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKey:
    """An attempt of a job, or a pilot, whose attempt is 0."""

    kind: Literal["job", "pilot"]
    """What ``record`` numbers."""
    record: int
    """The job, or the pilot."""
    attempt: int = 0
    """The attempt of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The kept part of a stream of ``size`` bytes: its first ``head`` bytes, and the last of it.

    ``data`` is all of that, compressed by zlib.
    """

    key: LogKey
    stream: LogStream
    size: int
    head: int
    data: bytes
