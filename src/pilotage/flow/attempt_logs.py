"""Logs that pilots send or leave in a spool, checked."""

import base64
import binascii
import zlib
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from pilotage.agent.payload.timeline import MOST_POINTS
from pilotage.agent.wire import LONGEST_LOG
from pilotage.model.records.logs import KeptLog, LogKey
from pilotage.model.values.types import FINITE, StoredInteger, Whole
from pilotage.store.jobs.logs import usage_log

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
        count = _inflated(self._compressed())
        if self.head > count or count > self.size:
            raise ValueError(f"{count} bytes do not hold a head of {self.head}, of {self.size} in all")
        return self

    def _compressed(self) -> bytes:
        try:
            return base64.b64decode(self.data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"data is not base64: {error}") from error

    def kept_log(self, key: LogKey) -> KeptLog:
        """Return the log in the store's form."""
        return KeptLog(key=key, stream=self.stream, size=self.size, head=self.head, data=self._compressed())


def _inflated(data: bytes) -> int:
    """Return the number of bytes before compression. Raises ValueError if there are too many, or none."""
    inflate = zlib.decompressobj()
    try:
        # Decompress at most one byte too many: a small stream may expand to gigabytes.
        count = len(inflate.decompress(data, LONGEST_LOG + 1))
    except zlib.error as error:
        raise ValueError(f"data is not compressed by zlib: {error}") from error
    if count > LONGEST_LOG or not inflate.eof or inflate.unused_data:
        raise ValueError(f"data is not one stream of at most {LONGEST_LOG} bytes compressed by zlib")
    return count


class AttemptLogs(BaseModel, extra="forbid"):
    """The streams of an attempt, and the time line of its payload."""

    job: StoredInteger
    attempt: StoredInteger
    logs: Annotated[tuple[Log, ...], Field(max_length=2, description="what its payload wrote")] = ()
    points: Annotated[
        tuple[OnePoint, ...], Field(max_length=MOST_POINTS, description="the time line of its payload")
    ] = ()

    def kept_logs(self) -> Iterator[KeptLog]:
        """Yield the logs in the store's form."""
        key = LogKey(kind="job", record=self.job, attempt=self.attempt)
        yield from (log.kept_log(key) for log in self.logs if log.stream != "agent")
        if self.points:
            yield usage_log(key, self.points)
