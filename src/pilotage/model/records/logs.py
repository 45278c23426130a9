"""Logs that pilots send and the store keeps: beginning and end of a stream, and time lines."""

from dataclasses import dataclass
from typing import Literal

Point = tuple[float, float, float, float, float, float, float]
"""A moment of a payload: s since its start, s of CPU time so far, MB of memory at that moment; then kB so
far: read from disks, written to disks, received from the network, sent to it."""
LogStream = Literal["stdout", "stderr", "agent", "usage", "node"]
"""A payload's output, an agent's log, a payload's time line, a node's description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKey:
    """An attempt of a job, or a pilot with attempt 0."""

    kind: Literal["job", "pilot"]
    """The kind of ``record``."""
    record: int
    """The job, or the pilot."""
    attempt: int = 0
    """The attempt of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The kept part of a stream of ``size`` bytes: its first ``head`` bytes, and its end.

    ``data`` is all of it, compressed with zlib.
    """

    key: LogKey
    stream: LogStream
    size: int
    head: int
    data: bytes
