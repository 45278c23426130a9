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

from .wire import LOG_HEAD, LONGEST_LOG, Log

STREAMS = ("stdout", "stderr")
STDERR_TAIL = 2048


def log_of(stream: str, head: bytes, tail: bytes, size: int) -> Log:
    """Return the log of a stream of ``size`` bytes, of which these are kept."""
    return Log(stream, size, len(head), base64.b64encode(zlib.compress(head + tail)).decode())


def read_streams(directory: Path) -> tuple[Log, ...]:
    """Return the payload's streams that are not empty."""
    found = []
    for stream in STREAMS:
        with suppress(OSError), _opened(directory, stream) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(size if size <= LONGEST_LOG else LOG_HEAD)
            tail = b""
            if size > LONGEST_LOG:
                file.seek(size - (LONGEST_LOG - LOG_HEAD))
                tail = file.read(LONGEST_LOG - LOG_HEAD)
            if size:
                found.append(log_of(stream, head, tail, size))
    return tuple(found)


def stderr_tail(directory: Path) -> str:
    """Return the end of the payload's standard error, as text that any database can store."""
    with suppress(OSError), _opened(directory, "stderr") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - STDERR_TAIL))
        return file.read(STDERR_TAIL).decode(errors="replace").replace("\0", "").strip()
    return ""


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
        found = os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(f"{name} is not a regular file")
    return os.fdopen(found, "rb" if mode == os.O_RDONLY else "ab")


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
