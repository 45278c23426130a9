"""Files of a directory that are being written. Each is locked by its writer."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

WINDOW = 32 << 20
"""Bytes after which the system gets another hint."""

BEHIND = 4 * WINDOW
"""Bytes that may wait for the disk between hints."""

LARGE = 64 << 20
"""Largest file in bytes that stays in memory, for a job that reads it next."""


class WriteBehind:
    """Keeps a large file out of the page cache while it is written.

    Its bytes would push other files out of memory and need new pages. If the host of a virtual machine
    reclaims unused memory, these pages take longer than the disk.
    """

    def __init__(self, file: int, begin: int = 0) -> None:
        self._file, self._told = file, begin

    def written(self, end: int) -> None:
        """Record that the file has bytes up to ``end``."""
        if end > LARGE and end - self._told >= WINDOW:
            self._told = end
            begin = max(0, end - BEHIND)
            # This call sends unwritten pages to the disk; a later call drops them.
            os.posix_fadvise(self._file, begin, end - begin, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Wait until the file is on the disk."""
        os.fsync(self._file)
        if os.fstat(self._file).st_size > LARGE:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)


Parent = Callable[[str], AbstractContextManager[tuple[int, str]]]
"""Opens the folder of a path. Returns its descriptor, and the name in it."""

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class LocalPart:
    """See ``Part``. All of them lie in one folder."""

    def __init__(self, folder: int, name: str, opened: int) -> None:
        self._folder, self._name, self._file = folder, name, opened
        self.size = self._end = os.fstat(opened).st_size
        self._read = 0
        self._behind = WriteBehind(opened, self._end)

    def read(self, size: int, /) -> bytes:
        """Read the bytes that it had when it was opened, from the first."""
        data = os.pread(self._file, min(size, self.size - self._read), self._read)
        self._read += len(data)
        return data

    def write(self, data: bytes) -> None:
        """Append bytes."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._file, rest, self._end)
            self._end += written
            rest = rest[written:]
        self._behind.written(self._end)

    def publish(self, path: str) -> None:
        """Give the file its name in its folder once it is on the disk. The name must reach the disk too."""
        self._behind.sync()
        name = path.rpartition("/")[2]
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def discard(self) -> None:
        """Delete it."""
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._folder)


@contextmanager
def opened(parent: Parent, path: str, former: Sequence[str]) -> Iterator[LocalPart]:
    """Open the part at a path, with the content of an earlier one unless a mover has that open."""
    with parent(path) as (folder, name):
        names = [name, *(part.rpartition("/")[2] for part in reversed(former))]
        unused = _first_unused(folder, names)
        try:
            if unused is None:
                file = os.open(name, NEW, 0o666, dir_fd=folder)
                _lock(file)
            else:
                before, file = unused
                # Then a slow process that opened it under its old name cannot publish it.
                os.rename(before, name, src_dir_fd=folder, dst_dir_fd=folder)
            yield LocalPart(folder, name, file)
        finally:
            os.close(file)


def _first_unused(folder: int, names: Sequence[str]) -> tuple[str, int] | None:
    """Return name and descriptor of the first part that can be locked. All others are deleted."""
    unused = None
    for name in names:
        with suppress(FileNotFoundError):
            if unused is None and (file := _reopened(folder, name)) is not None:
                unused = name, file
            else:
                # A mover that still writes it continues with a file without a name.
                os.unlink(name, dir_fd=folder)
    return unused


def _reopened(folder: int, name: str) -> int | None:
    """Open a part that is a non-empty plain file, and lock it; return None if that fails."""
    try:
        file = os.open(name, OLD, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise
        return None
    state = os.fstat(file)
    if stat.S_ISREG(state.st_mode) and state.st_nlink == 1 and state.st_size and _lock(file):
        return file
    os.close(file)
    return None


def _lock(file: int) -> bool:
    """Lock a file until it is closed. On file systems without locks, no part is ever continued."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
