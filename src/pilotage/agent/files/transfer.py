"""Copy files between storages and a job's directory, checking size and checksum."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
import time
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError

from ..payload.attempt import (
    Attempt,
    AttemptFailedError,
    InputLostError,
    StorageFailedError,
    legal,
    legal_scratch,
)
from ..payload.node_disk import OWN_DISK, on_this_node
from ..wire import JobInput, Output, StorageFault
from .file_access import Halt, StorageRoutes, is_storages_fault
from .storage import OpenStorage, open_beneath

log = logging.getLogger(__name__)
CHUNK = 4 << 20
TRIES = 3
MOST_SENT = 10**12
"""Most bytes of one output, if nothing else limits it."""


class _Adler32:
    def __init__(self) -> None:
        self.value = 1

    def update(self, data: bytes) -> None:
        self.value = zlib.adler32(data, self.value)

    def hexdigest(self) -> str:
        return f"{self.value:08x}"


class _MeasuredFile:
    """A file to send, with size and checksum of the bytes read since the last ``seek``."""

    def __init__(self, file: IO[bytes], halted: Halt, limit: int) -> None:
        self._file, self._halted, self._limit = file, halted, limit
        self.checksum, self.size = _Adler32(), 0

    def read(self, size: int = CHUNK) -> bytes:
        if self._halted():
            raise AttemptFailedError("given up while its files were moved")
        with on_this_node(OWN_DISK):
            data = self._file.read(size)
        self.checksum.update(data)
        self.size += len(data)
        if self.size > self._limit:
            raise _too_large(self._limit)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.checksum, self.size = _Adler32(), 0
        return self._file.seek(offset, whence)


def fetch(routes: StorageRoutes, attempt: Attempt, file: JobInput, target: Path, halted: Halt) -> None:
    """Fetch one input. Raises AttemptFailedError that names the input if it is missing, altered or
    unreadable, and UnreachableError if the server that hands it on is away.

    An input read from afar never counts as lost: it may only be invisible from here.
    """
    storage = routes.to(attempt, file.name, file.source)
    source = legal("input", file.path or file.name, deep=True)
    with on_this_node(OWN_DISK):
        target.parent.mkdir(parents=True, exist_ok=True)

    def once() -> None:
        try:
            remote = storage.read(source)
        except FileNotFoundError:
            raise InputLostError(file.name, "not at the queue's storage") from None
        with remote, _created(target) as local:
            _copy_checked(file, remote, local, halted)

    fault = StorageFault(file.name, file.source)
    try:
        _try_repeatedly(f"input {file.name}", once, halted, storage, fault)
    except InputLostError as lost:
        if file.source:
            raise AttemptFailedError(f"{lost}, read from {file.source}") from lost
        raise


def _try_repeatedly(
    label: str, once: Callable[[], Any], halted: Halt, storage: OpenStorage, fault: StorageFault
) -> None:
    """Try something up to ``TRIES`` times.

    Raises AttemptFailedError, with the fault if the storage is to blame.
    """
    for remaining in reversed(range(TRIES)):
        try:
            once()
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, HTTPError):
                error.close()
            if not remaining or halted():
                message = f"{label}: {error}"
                if halted() or not is_storages_fault(storage, error):
                    raise AttemptFailedError(message) from error
                raise StorageFailedError(message, fault) from error
            time.sleep(1)
        else:
            return


def _created(target: Path) -> IO[bytes]:
    with on_this_node(OWN_DISK):
        return target.open("wb")


def _copy_checked(file: JobInput, remote: IO[bytes], local: IO[bytes], halted: Halt) -> None:
    algorithm, _, expected = file.checksum.partition(":")
    if algorithm not in ("", "adler32", "md5", "sha256"):
        raise AttemptFailedError(f"input {file.name}: checksum algorithm {algorithm!r} is unknown")
    # Python 3.9 knows the argument. Systems that forbid md5 for secrets allow it for checks.
    checksum = hashlib.new(algorithm, usedforsecurity=False) if algorithm in ("md5", "sha256") else _Adler32()
    size = 0
    # Do not read a file that has grown to its end: one byte too many is proof.
    while size <= file.size and (chunk := remote.read(CHUNK)):
        if halted():
            raise AttemptFailedError("given up while its files were moved")
        size += len(chunk)
        checksum.update(chunk)
        with on_this_node(OWN_DISK):
            local.write(chunk)
    if size != file.size:
        more = " or more" if size > file.size else ""
        raise InputLostError(file.name, f"has {size}{more} bytes, should have {file.size}")
    if expected and checksum.hexdigest() != expected:
        actual = f"{algorithm}:{checksum.hexdigest()}"
        raise InputLostError(file.name, f"checksum {actual}, should be {file.checksum}")


def _too_large(limit: int) -> AttemptFailedError:
    return AttemptFailedError(
        f"outputs: they have more bytes than the work directory may have; {limit} are left for this file"
    )


def store(
    routes: StorageRoutes, attempt: Attempt, name: str, directory: Path, halted: Halt, limit: int = MOST_SENT
) -> Output:
    """Store one output of the directory under its name in the attempt's scratch folder.

    Raises AttemptFailedError if the payload made no regular file there, or made one above ``limit`` bytes.
    Raises UnreachableError if the server that hands it on is away.
    """
    storage, scratch = routes.to(attempt, name, ""), legal_scratch(attempt)
    stored: list[Output] = []

    def once() -> None:
        legal("output", name, deep=True)
        with open_output(directory, name) as local:
            # Refuse it before sending the first byte. A file may still grow while it is read.
            if local.seek(0, os.SEEK_END) > limit:
                raise _too_large(limit)
            local.seek(0)
            source = _MeasuredFile(local, halted, limit)
            arrived = storage.write(f"{scratch}/{name}", source)  # type: ignore[arg-type]
        if arrived is not None and arrived != source.size:
            raise OSError(f"{arrived} bytes arrived, {source.size} were sent")
        stored.append(Output(name, source.size, f"adler32:{source.checksum.hexdigest()}"))

    _try_repeatedly(f"output {name}: not stored", once, halted, storage, StorageFault(name, written=True))
    return stored[-1]


def open_output(directory: Path, name: str) -> IO[bytes]:
    """Open a regular file that the payload made. Refuse links on the way, and pipes in its place."""
    if directory.is_symlink():
        raise AttemptFailedError("the payload put a link in the place of its directory")
    irregular = AttemptFailedError(f"output {name}: not a regular file")
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        # Without O_NONBLOCK, a pipe made by the payload would block this thread.
        descriptor = open_beneath(folder, name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise AttemptFailedError(f"output {name} missing") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise irregular from None
        raise
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise irregular
    return os.fdopen(descriptor, "rb")


def discard(routes: StorageRoutes, attempt: Attempt) -> None:
    """Delete the attempt's scratch folder. Only log a failure, because the server deletes the folder too."""
    try:
        routes.to(attempt, "", "").remove(legal_scratch(attempt))
    except (OSError, HTTPException, ValueError, AttemptFailedError) as error:
        log.warning("scratch of job %s is left at its storage: %s", attempt.name, error)
