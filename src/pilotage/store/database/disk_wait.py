"""Waiting for the disk on SQLite: commits that end about the same time wait together.

A writer commits into the log of writes (WAL) without waiting, because other writers wait for it. Then it
waits here until that file is on the disk. Before SQLite deletes or overwrites a log, it waits itself.
"""

import os
import threading
from itertools import count
from pathlib import Path

from pilotage.store.database.errors import DiskFailed


class DiskWait:
    """Waits for one SQLite file. Safe to use from many threads."""

    def __init__(self, database: Path) -> None:
        # SQLite puts its log beside the target of a link.
        self._log = f"{database.resolve()}-wal"
        self._turn = threading.Lock()
        self._numbers = count(1)
        self._on_disk = 0
        self._fault = ""

    def wait(self) -> None:
        """Return once every commit that has ended before this call is on the disk.

        Raises ``DiskFailed``; if a write failed, from then on always: the kernel forgets what it could not
        write.
        """
        number = next(self._numbers)
        with self._turn:
            if self._fault:
                raise DiskFailed(self._fault)
            if self._on_disk < number:
                # Commits with smaller numbers have ended.
                latest = next(self._numbers)
                self._write()
                self._on_disk = latest

    def _write(self) -> None:
        try:
            file = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            # The last connection has closed, and SQLite has written all into the database.
            return
        except OSError as error:
            # Such as too many open files: a later wait may succeed.
            raise DiskFailed(f"{self._log}: {error.strerror}") from error
        try:
            os.fdatasync(file)
        except OSError as error:
            self._fault = f"{self._log}: {error.strerror}"
            raise DiskFailed(self._fault) from error
        finally:
            os.close(file)
