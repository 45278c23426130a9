"""Logs of payloads and of the agent. Only the beginning and the end are kept, within a size limit."""

from __future__ import annotations

import base64
import logging
import os
import stat
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from .payload.payload_secrets import masked
from .wire import LOG_HEAD, LONGEST_LOG, Log

STREAMS = ("stdout", "stderr")
STDERR_TAIL = 2048
LONGEST_ERROR = 3900


def log_of(stream: str, head: bytes, tail: bytes, size: int) -> Log:
    """Return the log of a stream of ``size`` bytes, with the kept ones."""
    return Log(stream, size, len(head), base64.b64encode(zlib.compress(head + tail)).decode())


def read_streams(directory: Path, hidden: Sequence[bytes] = ()) -> tuple[Log, ...]:
    """Return the payload's streams that are not empty, with hidden texts masked, the longest first."""
    logs = []
    for stream in STREAMS:
        with suppress(OSError), _opened(directory, stream) as file:
            size = os.fstat(file.fileno()).st_size
            head_size = size if size <= LONGEST_LOG else LOG_HEAD
            head = _part(file, 0, head_size, hidden)
            tail = b""
            if size > LONGEST_LOG:
                tail = _part(file, size - (LONGEST_LOG - LOG_HEAD), LONGEST_LOG - LOG_HEAD, hidden)
            if size:
                logs.append(log_of(stream, head, tail, size))
    return tuple(logs)


def _part(file: IO[bytes], start: int, size: int, hidden: Sequence[bytes]) -> bytes:
    """Return some bytes of a stream. A hidden text is masked even if only a part of it is among them."""
    around = max((len(text) for text in hidden), default=1) - 1
    begin = max(0, start - around)
    file.seek(begin)
    content = masked(file.read(start - begin + size + around), hidden)
    return content[start - begin :][:size]


def stderr_tail(directory: Path, hidden: Sequence[bytes] = ()) -> str:
    """Return the end of the payload's standard error, as text that any database can store."""
    with suppress(OSError), _opened(directory, "stderr") as file:
        start = max(0, os.fstat(file.fileno()).st_size - STDERR_TAIL)
        return _part(file, start, STDERR_TAIL, hidden).decode(errors="replace").replace("\0", "").strip()
    return ""


def storable(text: str) -> str:
    """Return text of bounded length that any database can store."""
    return text.replace("\0", "").encode(errors="replace").decode()[:LONGEST_ERROR]


def add_note(directory: Path, note: str) -> None:
    """Append a line of the agent's own to the payload's standard error."""
    with suppress(OSError), _opened(directory, "stderr", os.O_WRONLY | os.O_APPEND) as file:
        file.write(f"pilotage: {note}\n".encode())


def _opened(directory: Path, name: str, mode: int = os.O_RDONLY) -> IO[bytes]:
    """Open a regular file in a payload's directory, where the payload may have put anything.

    Raises OSError.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags = mode | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{name} is not a regular file")
    return os.fdopen(descriptor, "rb" if mode == os.O_RDONLY else "ab")


class OwnLog(logging.Handler):
    """Keeps the beginning and the end of the agent's own log for the server."""

    def __init__(self) -> None:
        super().__init__()
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        line = f"{self.format(record)}\n".encode(errors="replace")
        self._size += len(line)
        room = LOG_HEAD - len(self._head)
        self._head += line[:room]
        self._tail += line[room:] if room < len(line) else b""
        del self._tail[: -(LONGEST_LOG - LOG_HEAD)]

    def log(self) -> Log:
        """Return all that is kept."""
        return log_of("agent", bytes(self._head), bytes(self._tail), self._size)


def weight(logs: Sequence[Log]) -> int:
    """Return the size of the logs when sent, in bytes."""
    return sum(len(log.data) for log in logs)
