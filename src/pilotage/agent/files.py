"""Files between a queue's storage and a job's directory, always by copy, size and checksum checked.

Filesystems raise whatever their client libraries raise, so every error of theirs is taken for a failed try.
"""

import hashlib
import logging
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from .work import Attempt, AttemptFailedError, Input, InputLostError, Work, legal

log = logging.getLogger(__name__)
CHUNK = 4 << 20
TRIES = 3
Halt = Callable[[], bool]
"""Whether nobody wants the file any more."""


class _Adler32:
    def __init__(self) -> None:
        self.value = 1

    def update(self, data: bytes) -> None:
        self.value = zlib.adler32(data, self.value)

    def hexdigest(self) -> str:
        return f"{self.value:08x}"


def fetch(attempt: Attempt, file: Input, target: Path, halted: Halt) -> None:
    """Bring one input. Raises AttemptFailedError naming it when it is missing, altered or unreadable."""
    filesystem, root = _storage(attempt.work)
    source = f"{root}/{legal('input', file.name, deep=True)}"
    for left in reversed(range(TRIES)):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with filesystem.open(source, "rb") as remote, target.open("wb") as local:
                _copy_checked(file, remote, local, halted)
        except AttemptFailedError:
            raise
        except FileNotFoundError:
            raise InputLostError(file.name, "not at the queue's storage") from None
        except Exception as error:
            if not left or halted():
                raise AttemptFailedError(f"input {file.name}: {error}") from error
            time.sleep(1)
        else:
            return


def _copy_checked(file: Input, remote: IO[bytes], local: IO[bytes], halted: Halt) -> None:
    algorithm, _, expected = file.checksum.partition(":")
    if algorithm not in ("", "adler32", "sha256"):
        raise AttemptFailedError(f"input {file.name}: checksum algorithm {algorithm!r} is unknown")
    checksum = hashlib.sha256() if algorithm == "sha256" else _Adler32()
    size = 0
    for chunk in _chunks(remote, halted):
        size += len(chunk)
        if size > file.size:
            break
        checksum.update(chunk)
        local.write(chunk)
    if size != file.size:
        more = " or more" if size > file.size else ""
        raise InputLostError(file.name, f"has {size}{more} bytes, should have {file.size}")
    if expected and checksum.hexdigest() != expected:
        found = f"{algorithm}:{checksum.hexdigest()}"
        raise InputLostError(file.name, f"checksum {found}, should be {file.checksum}")


def store(attempt: Attempt, name: str, directory: Path, halted: Halt) -> dict[str, Any]:
    """Put one output into the attempt's scratch place: its name, bytes and adler32 checksum.

    Raises AttemptFailedError where the payload made no regular file of that name.
    """
    source = directory / legal("output", name)
    if directory.is_symlink():
        raise AttemptFailedError("the payload put a link in the place of its directory")
    try:
        kind = source.lstat().st_mode
    except OSError:
        raise AttemptFailedError(f"output {name} missing") from None
    if not stat.S_ISREG(kind):
        raise AttemptFailedError(f"output {name}: not a regular file")
    filesystem, root = _storage(attempt.work)
    target = f"{root}/{attempt.scratch}/{name}"
    for left in reversed(range(TRIES)):
        try:
            size, checksum = _put(filesystem, source, target, halted)
        except AttemptFailedError:
            raise
        except Exception as error:
            if not left or halted():
                raise AttemptFailedError(f"output {name}: not stored: {error}") from error
            time.sleep(1)
        else:
            break
    return {"name": name, "size": size, "checksum": checksum}


def _put(filesystem: Any, source: Path, target: str, halted: Halt) -> tuple[int, str]:
    checksum, size = _Adler32(), 0
    with source.open("rb") as local:
        if "http" in filesystem.protocol:
            for chunk in _chunks(local, halted):
                checksum.update(chunk)
                size += len(chunk)
            filesystem.put_file(str(source), target, method="put")
        else:
            filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
            with filesystem.open(target, "wb") as remote:
                for chunk in _chunks(local, halted):
                    checksum.update(chunk)
                    size += len(chunk)
                    remote.write(chunk)
    stored = filesystem.info(target).get("size")
    if stored is not None and stored != size:
        raise OSError(f"{stored} bytes arrived, {size} were sent")
    return size, f"adler32:{checksum.hexdigest()}"


def discard(attempt: Attempt) -> None:
    """Delete the attempt's scratch place; what cannot be deleted is logged, as nobody waits for it."""
    try:
        filesystem, root = _storage(attempt.work)
        scratch = f"{root}/{attempt.scratch}"
        if filesystem.exists(scratch):
            filesystem.rm(scratch, recursive=True)
    except Exception as error:
        log.warning("scratch of job %s is left at its storage: %s", attempt.name, error)


def _chunks(file: IO[bytes], halted: Halt) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        if halted():
            raise AttemptFailedError("given up while its files were moved")
        yield chunk


def _storage(work: Work) -> tuple[Any, str]:
    import fsspec

    try:
        filesystem, root = fsspec.core.url_to_fs(work.storage_url, **work.storage_options)
    except (ImportError, ValueError, TypeError) as error:
        raise AttemptFailedError(f"storage of task {work.task} cannot be opened: {error}") from error
    return filesystem, str(root).rstrip("/")
