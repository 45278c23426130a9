"""Files that are written, and get their names together: a disk settles many at the cost of one."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Protocol, runtime_checkable

from .backend import Backend
from .failures import nothing_left

WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

MOST = 64
"""Drafts that wait for their names, each with two files open; who writes another waits."""

AT_ONCE = 16
"""Threads that wait for the disk: what they ask for at the same time is written together."""

Parent = Callable[[], AbstractContextManager[tuple[int, str]]]
"""Opens the folder of a path; its descriptor, and the name in it."""


class LocalDraft:
    """A small file of a directory under its temporary name, with its folder held open."""

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
                    left = memoryview(chunk)
                    while left:
                        left = left[os.write(self._file, left) :]
            self._opened = opened.pop_all()

    @property
    def folder(self) -> tuple[int, int]:
        """The folder, however it was reached."""
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
        """Let go of it and its folder."""
        self._opened.close()


@runtime_checkable
class DraftingBackend(Backend, Protocol):
    """A backend that can wait with the names of files that it has written."""

    def draft(self, path: str, part: str, chunks: Iterable[bytes]) -> LocalDraft:
        """Write a file as :meth:`~pilotage.movers.backend.Backend.store` does, but for its name."""


Done = Callable[[Exception | None], None]
"""Told that a draft has its name and is on the disk, or why not."""


class Publisher:
    """Gives the drafts of one storage their names: all that are written while the disk settles others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST)
        self._waiting: list[tuple[LocalDraft, Done]] = []
        self._works = False

    def add(self, draft: LocalDraft, done: Done) -> None:
        """Have a draft published. Blocks while many others wait."""
        self._room.acquire()
        with self._lock:
            self._waiting.append((draft, done))
            if self._works:
                return
            self._works = True
        threading.Thread(target=self._run, name="publisher", daemon=True).start()

    def _run(self) -> None:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="disk") as disk:
            while True:
                with self._lock:
                    taken, self._waiting = self._waiting, []
                    if not taken:
                        self._works = False
                        return
                for (_, done), error in zip(
                    taken, _published([draft for draft, _ in taken], disk), strict=True
                ):
                    self._room.release()
                    done(error)


def _published(drafts: Sequence[LocalDraft], disk: ThreadPoolExecutor) -> list[Exception | None]:
    """Publish drafts together; returns what each of them failed of, if any. One has no part in another's."""
    found = list(disk.map(_tried, [draft.sync for draft in drafts]))
    for number, draft in enumerate(drafts):
        found[number] = found[number] or _tried(draft.rename)
    folders = {draft.folder: draft for draft, error in zip(drafts, found, strict=True) if error is None}
    synced = dict(zip(folders, disk.map(_tried, [one.sync_folder for one in folders.values()]), strict=True))
    for number, draft in enumerate(drafts):
        if found[number] is None:
            found[number] = synced[draft.folder]
        else:
            _tried(draft.unlink)
        draft.close()
    return found


def _tried(act: Callable[[], object]) -> Exception | None:
    try:
        act()
    except Exception as error:
        return error
    return None
