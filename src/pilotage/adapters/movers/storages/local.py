"""Directories of this machine as storages: each part of a path is opened inside the previous one."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from pilotage.adapters.movers.copies.drafts import WRITE, LocalDraft
from pilotage.adapters.movers.copies.third_party import CannotFetch
from pilotage.adapters.movers.storages import part_files
from pilotage.adapters.movers.storages.backend import (
    Backend,
    EntryKind,
    LinkError,
    PathEntry,
    StorageOptionError,
)
from pilotage.adapters.movers.storages.backend_calls import nothing_left
from pilotage.adapters.movers.storages.part_files import LocalPart, WriteBehind
from pilotage.ports.moving import Delivered, Progress, Space, StorageError, WrongFileError

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Non-blocking: opening a pipe in place of a file would wait for a writer."""

FICLONE = 0x40049409
"""Linux's request to let a file share the blocks of another until one of them changes."""

MOST_PARTS = 300
"""Deepest nesting of folders. No file's name is longer, and opening such a path takes ever longer."""

NO_BLOCKS = "their file systems share no blocks"

NAMES: Mapping[EntryKind, str] = {"folder": "folder", "link": "symbolic link", "other": "special file"}


class LocalBackend:
    """A directory. Links may lead to it, but below it none is followed.

    Each part of a path is opened with O_NOFOLLOW, relative to the directory opened before it. So a folder
    that is swapped for a link in between gives an error, and never leads out.
    """

    writable = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        if options:
            raise StorageOptionError(f"file: unknown options {sorted(options)}; there are none")
        scheme, _, path = url.partition("://")
        if not path.startswith("/"):
            raise ValueError(f"{url!r} has no path; give an absolute one, as in {scheme}:///data")
        self._root = Path(path)
        self._not_shared: set[Path] = set()

    def check_root(self) -> None:
        """See ``RootedBackend``."""
        if not self._root.is_dir():
            raise StorageError(f"there is no folder {self._root}")

    def entry(self, path: str) -> PathEntry:
        """See ``Backend``."""
        with self._parent(path) as (folder, name):
            return _entry(os.stat(name, dir_fd=folder, follow_symlinks=False))

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """See ``Backend``."""
        with self._folder(folder.split("/") if folder else ()) as opened, os.scandir(opened) as listing:
            for item in listing:
                with suppress(FileNotFoundError):
                    yield item.name, _entry(item.stat(follow_symlinks=False))

    def resolved(self, path: str) -> str:
        """See ``LinkingBackend``."""
        root, real = (os.path.realpath(place) for place in (self._root, self._root / path))
        if not real.startswith(f"{root.rstrip('/')}/"):
            raise LinkError(f"{path} leads out of the storage")
        return real[len(root.rstrip("/")) + 1 :]

    def read(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """See ``Backend``.

        Raises WrongFileError for anything except a plain file.
        """
        return self.read_from(path, 0)

    @contextmanager
    def read_from(self, path: str, start: int) -> Iterator[IO[bytes]]:
        """See ``SeekableBackend``."""
        self.check_root()
        with self._parent(path) as (folder, name):
            try:
                opened = os.open(name, READ, dir_fd=folder)
            except OSError as error:
                raise _refusal(error, name, folder, path) from None
        with os.fdopen(opened, "rb", buffering=0) as stream:
            kind = _entry(os.fstat(opened)).kind
            if kind != "file":
                raise WrongFileError(f"{path} is not a plain file but a {NAMES[kind]}")
            stream.seek(start)
            yield stream

    def part(self, path: str, former: Sequence[str]) -> AbstractContextManager[LocalPart]:
        """See ``PartsBackend``."""
        return part_files.opened(lambda path: self._parent(path, make=True), path, former)

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        """See ``Backend``. The file is on the disk before it has its name."""
        with self._parent(path, make=True) as (folder, name):
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)
            opened = os.open(part, WRITE, 0o666, dir_fd=folder)
            with nothing_left(part, lambda: os.unlink(part, dir_fd=folder)):
                with os.fdopen(opened, "wb") as sink:
                    write_behind = WriteBehind(opened)
                    for chunk in chunks:
                        sink.write(chunk)
                        write_behind.written(sink.tell())
                    sink.flush()
                    write_behind.sync()
                os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
            # The name is stored in the folder, which must be on the disk as well.
            os.fsync(folder)

    def draft(self, path: str, part: str, chunks: Iterable[bytes]) -> LocalDraft:
        """See ``DraftingBackend``."""
        return LocalDraft(lambda: self._parent(path, make=True), part, chunks)

    def fetch(self, source: Backend, path: str, draft: str, size: int, progress: Progress) -> None:  # noqa: ARG002
        """See ``FetchingBackend``. The two files share their blocks."""
        if not isinstance(source, LocalBackend):
            raise CannotFetch("only one of them is a directory")
        if source._root in self._not_shared:
            raise CannotFetch(NO_BLOCKS)
        with source.read(path) as stream, self._parent(draft, make=True) as (folder, name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            opened = os.open(name, WRITE, 0o666, dir_fd=folder)
            try:
                fcntl.ioctl(opened, FICLONE, stream.fileno())
                os.fsync(opened)
            except OSError:
                # Few file systems can do it, and only within one. Do not try it for the next files.
                self._not_shared.add(source._root)
                os.unlink(name, dir_fd=folder)
                raise CannotFetch(NO_BLOCKS) from None
            finally:
                os.close(opened)

    def describe(self, path: str, kind: str) -> Delivered | None:  # noqa: ARG002
        """See ``FetchingBackend``. A directory has no checksums."""
        return None

    def space(self) -> Space:
        """See ``SpaceBackend``. It reports the file system below the directory.

        For a directory that does not exist yet, use the nearest folder above it.
        """
        there = next(folder for folder in (self._root, *self._root.parents) if folder.exists())
        disk = os.statvfs(there)
        # Space reserved for the superuser is not free.
        return Space(free=disk.f_bavail * disk.f_frsize, total=disk.f_blocks * disk.f_frsize)

    def rename(self, source: str, target: str) -> None:
        """See ``Backend``."""
        with self._parent(source) as (here, name), self._parent(target, make=True) as (there, new):
            os.rename(name, new, src_dir_fd=here, dst_dir_fd=there)
            os.fsync(there)

    def delete(self, path: str) -> None:
        """See ``Backend``."""
        with self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See ``Backend``."""
        if recursive:
            self._empty(path)
        with self._parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def _empty(self, path: str) -> None:
        """Delete everything in a folder at any depth, with few open files at a time."""
        todo, folders = [path], []
        while todo:
            folder = todo.pop()
            folders.append(folder)
            for name, entry in self.entries(folder):
                if entry.kind == "folder":
                    todo.append(f"{folder}/{name}")
                else:
                    self.delete(f"{folder}/{name}")
        # The search went from the top down. In reverse order each folder is empty at its turn.
        for folder in reversed(folders[1:]):
            self.delete_folder(folder, recursive=False)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        *parts, name = path.split("/")
        with self._folder(parts, make=make) as folder:
            yield folder, name

    def _opened_root(self, *, make: bool) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            return os.open(self._root, flags)
        except FileNotFoundError:
            if not make:
                raise
        self._root.mkdir(parents=True, exist_ok=True)
        return os.open(self._root, flags)

    @contextmanager
    def _folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """Open a folder below the root, part by part. With ``make``, make missing ones."""
        if len(parts) > MOST_PARTS:
            raise WrongFileError(f"{'/'.join(parts[:3])}/... is more than {MOST_PARTS} folders deep")
        folder = self._opened_root(make=make)
        try:
            for number, part in enumerate(parts):
                try:
                    below = _opened(part, folder, make=make)
                except OSError as error:
                    raise _refusal(error, part, folder, "/".join(parts[: number + 1])) from None
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)


def _opened(part: str, folder: int, *, make: bool) -> int:
    """Open a folder. With ``make``, make it if it is missing, which is rare."""
    try:
        return os.open(part, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=folder)
    return os.open(part, FOLDER, dir_fd=folder)


def _entry(status: os.stat_result) -> PathEntry:
    if stat.S_ISREG(status.st_mode):
        return PathEntry("file", status.st_size)
    if stat.S_ISDIR(status.st_mode):
        return PathEntry("folder")
    return PathEntry("link" if stat.S_ISLNK(status.st_mode) else "other")


def _refusal(error: OSError, name: str, folder: int, path: str) -> Exception:
    """Describe a path that could not be opened: the system's own message hides a link."""
    if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return error
    with suppress(OSError):
        kind = _entry(os.stat(name, dir_fd=folder, follow_symlinks=False)).kind
        if kind in NAMES:
            return LinkError(f"{path} is a {NAMES[kind]}, which is never followed")
    return error
