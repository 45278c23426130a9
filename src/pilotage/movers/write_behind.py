"""Large files that are written to the disk as they grow, and then leave the system's memory."""

import os

WINDOW = 32 << 20
"""Bytes after which the system is told again."""

BEHIND = 4 * WINDOW
"""Bytes that may wait for the disk meanwhile."""

LARGE = 64 << 20
"""Bytes up to which a file stays in memory, for a job that reads it next."""


class WriteBehind:
    """Keeps a large file that is being written out of the page cache.

    Its bytes would push what others read out of memory, and fill pages that the system has to find first: a
    virtual machine whose host takes back what rests waits longer for these than for the disk.
    """

    def __init__(self, file: int, begin: int = 0) -> None:
        self._file, self._told = file, begin

    def written(self, end: int) -> None:
        """Note that the file has bytes up to ``end``."""
        if end > LARGE and end - self._told >= WINDOW:
            self._told = end
            begin = max(0, end - BEHIND)
            # Pages that are not on the disk yet are sent there by this call, and forgotten by a later one.
            os.posix_fadvise(self._file, begin, end - begin, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Wait until the file is on the disk."""
        os.fsync(self._file)
        if os.fstat(self._file).st_size > LARGE:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
