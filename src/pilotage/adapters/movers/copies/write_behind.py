"""Write large files to the disk as they grow, and then drop them from the system's memory."""

import os

WINDOW = 32 << 20
"""Bytes after which the system gets another hint."""

BEHIND = 4 * WINDOW
"""Bytes that may wait for the disk meanwhile."""

LARGE = 64 << 20
"""Largest file in bytes that stays in memory, for a job that reads it next."""


class WriteBehind:
    """Keeps a large file out of the page cache while it is written.

    Its bytes would push other files out of memory and need new pages. On a virtual machine whose host
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
