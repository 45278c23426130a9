"""Archiving: records that ended long ago go from the store to files, by command or by age."""

import gzip
import itertools
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pilotage.store import ArchivedElsewhere, NoFederation, Slice, Store

log = logging.getLogger(__name__)

SLICE = 2000
"""Records at most that are read, written and deleted together."""

SHARE = 0.1
"""Part of its time for which the server's archiving is at work: it rests after each slice."""

PERIOD = 6 * 3600.0
"""Seconds after which a server looks for more; each time that there is something makes a file."""


class ArchiveFile:
    """A file of its own for one run: lines of JSON in gzip, each slice a member that is whole by itself.

    It is made at the first slice, readable by its user alone. What a kill cuts off at its end was not deleted
    from the store: all lines of whole members were read by then, and those of the last stand in a later file.
    """

    def __init__(self, directory: Path, name: str, now: float) -> None:
        self._directory = directory
        self._stem = f"{name}-{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H%M%SZ}"
        self.path: Path | None = None

    def write(self, lines: Sequence[bytes]) -> None:
        """Add lines; returns when they are on the disk. Raises OSError."""
        descriptor = self._open()
        try:
            member = memoryview(gzip.compress(b"".join(lines), mtime=0))
            while member:
                member = member[os.write(descriptor, member) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        if self.path is not None:
            return os.open(self.path, os.O_WRONLY | os.O_APPEND)
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        numbers = itertools.count(2)
        path = self._directory / f"{self._stem}.jsonl.gz"
        while self.path is None:
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
                self.path = path
            except FileExistsError:
                path = self._directory / f"{self._stem}-{next(numbers)}.jsonl.gz"
        _sync(self._directory)
        return descriptor


def archive(store: Store, before: float, write: Callable[[Sequence[bytes]], None]) -> Iterator[Slice]:
    """Archive what ended before a time (s since 1970 UTC), slice by slice: written first, then deleted.

    Raises :class:`ArchivedElsewhere` while another process does: each slice is written once.
    """
    held = store.archive.begin(store.clock(), None)
    try:
        while (found := store.archive.next(before, SLICE)) is not None:
            write(found.lines)
            store.archive.delete(found)
            yield found
            held = store.archive.begin(store.clock(), held)
    finally:
        store.archive.end(held)


class Archiving:
    """A thread of the server that archives what ended more than ``age`` seconds ago, a little at a time.

    Each time there is something it makes a file in the directory; one that cannot be written is logged, and
    nothing is deleted.
    """

    def __init__(self, store: Store, directory: Path, age: float) -> None:
        self._store = store
        self._directory = directory
        self._age = age
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="archiving", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the slice that is under way."""
        self._stopping.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._once()
            except (NoFederation, ArchivedElsewhere):
                pass
            except Exception:
                log.exception("archiving to %s failed; it is tried again in %g s", self._directory, PERIOD)
            self._stopping.wait(PERIOD)

    def _once(self) -> None:
        now = self._store.clock()
        file = ArchiveFile(self._directory, self._store.federation().name, now)
        moved: Counter[str] = Counter()
        begun = time.monotonic()
        for found in archive(self._store, now - self._age, file.write):
            moved[found.what] += len(found.ids)
            if self._stopping.wait((time.monotonic() - begun) * (1 / SHARE - 1)):
                break
            begun = time.monotonic()
        if moved:
            log.info("archived to %s: %s", file.path, counted(moved))


def counted(moved: Counter[str]) -> str:
    """Numbers of archived records in words."""
    return ", ".join(f"{count} {what}{'s' if count != 1 else ''}" for what, count in sorted(moved.items()))


def _sync(directory: Path) -> None:
    """Let a new file's name survive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
