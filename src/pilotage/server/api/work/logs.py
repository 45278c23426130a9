"""Logs that people see."""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pilotage.model.records.logs import LogKey, LogStream, Point
from pilotage.store import Store, StoredLog
from pilotage.store.jobs.logs import NODE, USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Bytes ``start`` to ``end`` of a stream, as text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """A stream of ``size`` bytes at ``time`` (s since 1970 UTC), and its kept parts."""

    stream: LogStream
    time: float
    size: int
    parts: Sequence[LogPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLogs:
    """The logs of a job's attempt, or of a pilot.

    ``attempts`` are the ones with any kept log. With ``runs``, more may come: first within a pilot's
    heartbeat, then every few seconds while a person reads. ``points`` are the time line of the payload: s, s
    of CPU time, MB of memory, and kB read, written, received and sent. All but the memory are sums. ``node``
    is what a pilot found of its node: slot and machine, GPUs, containers, routes, and how many s its clock is
    ahead.
    """

    attempt: int
    attempts: Sequence[int]
    runs: bool
    logs: Sequence[LogView]
    points: Sequence[Point]
    node: Mapping[str, Any] | None = None


def kept_logs(store: Store, key: LogKey, known_bytes: dict[str, int], runs: bool) -> KeptLogs:
    """Return the logs of an attempt or pilot, from the first unseen byte of each stream on."""
    streams = [log for log in store.logs.of(key) if log.stream not in (USAGE, NODE)]
    return KeptLogs(
        attempt=key.attempt,
        attempts=store.logs.attempts(key.kind, key.record),
        runs=runs,
        logs=[_view(log, known_bytes.get(log.stream, 0), runs) for log in streams],
        points=store.logs.points(key),
        node=store.logs.node(key.record) if key.kind == "pilot" else None,
    )


def _view(log: StoredLog, known_bytes: int, grows: bool) -> LogView:
    # The gap is between head and tail; the tail ends where the stream ends.
    tail = log.size - (len(log.data) - log.head)
    pieces = ((0, log.data[: log.head]), (tail, log.data[log.head :]))
    return LogView(
        stream=cast("LogStream", log.stream),
        time=log.time,
        size=log.size,
        parts=[part for start, data in pieces for part in _part(start, data, known_bytes, grows)],
    )


def _part(start: int, data: bytes, known_bytes: int, grows: bool) -> Iterable[LogPart]:
    """Return the unseen part of a piece, without an incomplete character at its end."""
    at = max(start, known_bytes)
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data[at - start :], final=not grows)
    end = start + len(data) - len(decoder.getstate()[0])
    return (LogPart(start=at, end=end, text=text),) if at < end else ()
