"""Archiving: move records that ended long ago from the store to files, by command or by age."""

import gzip
import itertools
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pilotage.flow.loops.sole import Pause, SoleLoop
from pilotage.model.documents.serialization import to_json
from pilotage.ports.presence import Presence
from pilotage.store import ARCHIVE, ArchivedElsewhere, Slice, Store

log = logging.getLogger(__name__)

SLICE = 2000
"""Most records read, written and deleted together."""

SHARE = 0.1
"""Part of the time that the server's archiving works. It pauses after each slice."""

PERIOD = 6 * 3600.0
"""Seconds between two searches. Each successful one makes a file."""


class ArchiveFile:
    """A file for one run: lines of JSON in gzip. Each slice is a complete member by itself.

    It is made at the first slice, readable by its user alone. If a process is killed while it writes a
    member, the store still has these records, and a later file gets them. Readers get all complete members.
    """

    def __init__(self, directory: Path, name: str, now: float) -> None:
        self._directory = directory
        self._stem = f"{name}-{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H%M%SZ}"
        self.path: Path | None = None

    def write(self, lines: Sequence[bytes]) -> None:
        """Add lines. Return when they are on the disk. Raises OSError."""
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


def archive(
    store: Store, before: float, write: Callable[[Sequence[bytes]], None], server: str
) -> Iterator[Slice]:
    """Archive records that ended before a time (s since 1970 UTC), slice by slice: write, then delete.

    The ``server`` has the lease of the archive. Raises ``LeaseLost``, with nothing of a slice deleted,
    if another server has taken it.
    """
    while (records := store.archive.next(before, SLICE)) is not None:
        write(records.lines)
        store.archive.delete(records, server)
        yield records


def archive_alone(
    store: Store, presence: Presence, before: float, write: Callable[[Sequence[bytes]], None]
) -> Iterator[Slice]:
    """Take the lease, and archive all. Raises ``ArchivedElsewhere`` while another process does it."""
    if not store.leases.take(
        ARCHIVE, presence.name, store.clock(), lambda holder: bool(presence.gone([holder]))
    ):
        raise ArchivedElsewhere
    try:
        yield from archive(store, before, write, presence.name)
    finally:
        store.leases.give_back(ARCHIVE, presence.name)


def archive_audit(
    store: Store, before: float, write: Callable[[Sequence[bytes]], None], server: str
) -> Iterator[int]:
    """Archive records of the audit from before a time, in the same way. Yield how many each slice has."""
    while old := store.audit.old(before, SLICE):
        write([to_json({"record": "audit", "audit": record}) + b"\n" for record in old])
        store.audit.forget_up_to(old[-1].id, server)
        yield len(old)


def archiving(store: Store, presence: Presence, directory: Path, age: float, audit_age: float) -> SoleLoop:
    """Return the loop that archives records that ended more than ``age`` seconds ago, a little at a time.

    Those of the audit are archived after ``audit_age`` seconds.
    If there are any, it makes a file in the directory. If that fails it logs the error, and deletes nothing.
    """

    def work(pause: Pause) -> None:
        now = store.clock()
        file = ArchiveFile(directory, store.federation().name, now)
        moved: Counter[str] = Counter()
        begun = time.monotonic()
        slices: Iterator[tuple[str, int]] = itertools.chain(
            (
                (slice_.kind, len(slice_.ids))
                for slice_ in archive(store, now - age, file.write, presence.name)
            ),
            (
                ("audit record", count)
                for count in archive_audit(store, now - audit_age, file.write, presence.name)
            ),
        )
        for kind, count in slices:
            moved[kind] += count
            if pause((time.monotonic() - begun) * (1 / SHARE - 1)):
                break
            begun = time.monotonic()
        if moved:
            log.info("archived to %s: %s", file.path, counted(moved))

    return SoleLoop(store, presence, ARCHIVE, PERIOD, work)


def counted(moved: Counter[str]) -> str:
    """Return numbers of archived records in words."""
    return ", ".join(f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in sorted(moved.items()))


def _sync(directory: Path) -> None:
    """Make a new file's name survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
