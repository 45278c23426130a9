"""Logs that pilots send, checked, and logs that people see."""

import base64
import binascii
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, Field, model_validator

from pilotage.agent.timeline import MOST_POINTS
from pilotage.agent.wire import LONGEST_LOG
from pilotage.model.records.logs import KeptLog, LogKey, LogStream, Point
from pilotage.model.values.types import FINITE, Whole
from pilotage.store import Store, StoredLog
from pilotage.store.tables.logs import NODE, USAGE, usage_log

from .dependencies import StoredInteger

Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False), FINITE]
OnePoint = tuple[Amount, Amount, Amount, Amount, Amount, Amount, Amount]
ENCODED = 4 * (LONGEST_LOG + 1000) // 3
"""Most base64 characters of a log that cannot be compressed."""


class Log(BaseModel, extra="forbid"):
    """The kept part of a stream of ``size`` bytes: its first ``head`` bytes, and its end.

    ``data`` is all of it, compressed with zlib and encoded in base64.
    """

    stream: Literal["stdout", "stderr", "agent"]
    size: StoredInteger
    head: Annotated[Whole, Field(ge=0, le=LONGEST_LOG)]
    data: Annotated[str, Field(max_length=ENCODED)]

    @model_validator(mode="after")
    def _is_whole(self) -> "Log":
        kept = _inflated(self._compressed())
        if self.head > kept or kept > self.size:
            raise ValueError(f"{kept} bytes do not hold a head of {self.head}, of {self.size} in all")
        return self

    def _compressed(self) -> bytes:
        try:
            return base64.b64decode(self.data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"data is not base64: {error}") from error

    def kept(self, key: LogKey) -> KeptLog:
        """Return the log in the store's form."""
        return KeptLog(key=key, stream=self.stream, size=self.size, head=self.head, data=self._compressed())


def _inflated(data: bytes) -> int:
    """Return the number of bytes before compression. Raises ValueError if there are too many, or none."""
    inflate = zlib.decompressobj()
    try:
        # Decompress at most one byte too many: a small stream may stand for gigabytes.
        found = len(inflate.decompress(data, LONGEST_LOG + 1))
    except zlib.error as error:
        raise ValueError(f"data is not compressed by zlib: {error}") from error
    if found > LONGEST_LOG or not inflate.eof or inflate.unused_data:
        raise ValueError(f"data is not one stream of at most {LONGEST_LOG} bytes compressed by zlib")
    return found


class AttemptLogs(BaseModel, extra="forbid"):
    """The streams of an attempt, and the time line of its payload."""

    job: StoredInteger
    attempt: StoredInteger
    logs: Annotated[tuple[Log, ...], Field(max_length=2)] = ()
    points: Annotated[tuple[OnePoint, ...], Field(max_length=MOST_POINTS)] = ()

    def kept(self) -> Iterator[KeptLog]:
        """Yield the logs in the store's form."""
        key = LogKey(kind="job", record=self.job, attempt=self.attempt)
        yield from (log.kept(key) for log in self.logs if log.stream != "agent")
        if self.points:
            yield usage_log(key, self.points)


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

    ``attempts`` are those with any kept log. With ``runs``, more may come: first within a pilot's heartbeat,
    then every few seconds while somebody reads. ``points`` are the time line of the payload: s, s of CPU
    time, MB of memory, and kB read, written, received and sent. All but the memory are sums. ``node`` is what
    a pilot found of its node: slot and machine, GPUs, containers, routes, and how many s its clock is ahead.
    """

    attempt: int
    attempts: Sequence[int]
    runs: bool
    logs: Sequence[LogView]
    points: Sequence[Point]
    node: Mapping[str, Any] | None = None


def shown(store: Store, key: LogKey, seen: dict[str, int], runs: bool) -> KeptLogs:
    """Return the logs of an attempt or pilot, from the first unseen byte of each stream on."""
    streams = [log for log in store.logs.of(key) if log.stream not in (USAGE, NODE)]
    return KeptLogs(
        attempt=key.attempt,
        attempts=store.logs.attempts(key.kind, key.record),
        runs=runs,
        logs=[_view(log, seen.get(log.stream, 0), runs) for log in streams],
        points=store.logs.points(key),
        node=store.logs.node(key.record) if key.kind == "pilot" else None,
    )


def _view(log: StoredLog, seen: int, grows: bool) -> LogView:
    # The gap lies between head and tail; the tail ends where the stream ends.
    tail = log.size - (len(log.data) - log.head)
    pieces = ((0, log.data[: log.head]), (tail, log.data[log.head :]))
    return LogView(
        stream=cast("LogStream", log.stream),
        time=log.time,
        size=log.size,
        parts=[part for start, data in pieces for part in _part(start, data, seen, grows)],
    )


def _part(start: int, data: bytes, seen: int, grows: bool) -> Iterable[LogPart]:
    """Yield the unseen part of a piece, without a character whose rest is still to come."""
    at = max(start, seen)
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data[at - start :], final=not grows)
    end = start + len(data) - len(decoder.getstate()[0])
    return (LogPart(start=at, end=end, text=text),) if at < end else ()
