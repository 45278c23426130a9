"""Write files first and name them together: a disk syncs many at the cost of one."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Protocol, runtime_checkable

from pilotage.adapters.movers.storages.backend import Backend
from pilotage.adapters.movers.storages.backend_calls import nothing_left

WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

MOST = 128
"""Most drafts that wait for their names, each with two open files. Further writers wait."""

TOGETHER, AT_ONCE = 16, 8
"""Drafts that one thread publishes, and number of threads. The disk writes their concurrent requests
together."""

Parent = Callable[[], AbstractContextManager[tuple[int, str]]]
"""Opens the folder of a path. Returns its descriptor, and the name in it."""


class LocalDraft:
    """A small file in a directory under a temporary name, with its folder held open."""

    def __init__(self, parent: Parent, part: str, chunks: Iterable[bytes]) -> None:
        self._part = part
        with ExitStack() as opened:
            self._folder, self._name = opened.enter_context(parent())
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=self._folder)
            self._file = os.open(part, WRITE, 0o666, dir_fd=self._folder)
            opened.callback(os.close, self._file)
            with nothing_left(part, self.unlink):
                for chunk in chunks:
                    rest = memoryview(chunk)
                    while rest:
                        rest = rest[os.write(self._file, rest) :]
            self._opened = opened.pop_all()

    @property
    def folder(self) -> tuple[int, int]:
        """Return an identity of the folder, however it was reached."""
        state = os.fstat(self._folder)
        return state.st_dev, state.st_ino

    def sync(self) -> None:
        """Wait until its bytes are on the disk."""
        os.fsync(self._file)

    def rename(self) -> None:
        """Give it its name."""
        os.rename(self._part, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def sync_folder(self) -> None:
        """Wait until the names in its folder are on the disk."""
        os.fsync(self._folder)

    def unlink(self) -> None:
        """Delete it, as long as it has not got its name."""
        os.unlink(self._part, dir_fd=self._folder)

    def close(self) -> None:
        """Close it and its folder."""
        self._opened.close()


@runtime_checkable
class DraftingBackend(Backend, Protocol):
    """A backend that can delay naming the files that it has written."""

    def draft(self, path: str, part: str, chunks: Iterable[bytes]) -> LocalDraft:
        """Write a file like ``store``, but do not name it yet."""


Done = Callable[[Exception | None], None]
"""Called when a draft has its name and is on the disk, or with the reason why not."""


class Publisher:
    """Names the drafts of one storage: all that were written while the disk synced others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST)
        self._waiting: deque[tuple[LocalDraft, Done]] = deque()
        self._at_work = 0

    def add(self, draft: LocalDraft, done: Done) -> None:
        """Queue a draft for publication. Blocks while many others wait."""
        self._room.acquire()
        with self._lock:
            self._waiting.append((draft, done))
            # The first begins immediately. Later ones go together until there are enough for another thread.
            if self._at_work and (len(self._waiting) < TOGETHER or self._at_work >= AT_ONCE):
                return
            self._at_work += 1
        threading.Thread(target=self._run, name="publisher", daemon=True).start()

    def _run(self) -> None:
        while batch := self._next_batch():
            failures = _published([draft for draft, _ in batch])
            for (_, done), failure in zip(batch, failures, strict=True):
                self._room.release()
                done(failure)

    def _next_batch(self) -> list[tuple[LocalDraft, Done]]:
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
            self._at_work -= not batch
            return batch


def _published(drafts: Sequence[LocalDraft]) -> list[Exception | None]:
    """Publish drafts together.

    Return each one's error, if any. One draft's error does not affect the others.
    """
    failures = [_tried(draft.sync) or _tried(draft.rename) for draft in drafts]
    synced: dict[tuple[int, int], Exception | None] = {}
    for number, draft in enumerate(drafts):
        if failures[number] is None:
            if draft.folder not in synced:
                synced[draft.folder] = _tried(draft.sync_folder)
            failures[number] = synced[draft.folder]
        else:
            _tried(draft.unlink)
        draft.close()
    return failures


def _tried(act: Callable[[], object]) -> Exception | None:
    try:
        act()
    except Exception as error:
        return error
    return None
