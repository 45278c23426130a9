"""The target folder of a command. No name leads out of it, and no link in it is followed."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .errors import FetchFailed

REMEDY = "remove it, or name another folder with --to"


@dataclass(frozen=True, slots=True)
class Destination:
    """A place below a folder that the user chose. ``name`` may come from a stranger.

    The folder itself may be a link, because the user named it. But another user may have put files into it.
    """

    root: Path
    name: str

    @property
    def path(self) -> Path:
        """Return the place as people write it."""
        return self.root / self.name

    @contextmanager
    def folder(self) -> Iterator["OpenFolder"]:
        """Make and open the folder of the place, part by part.

        Raises OSError, and FetchFailed at a link.
        """
        *parts, _ = self.name.split("/")
        self.root.mkdir(parents=True, exist_ok=True)
        path, descriptor = self.root, os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in parts:
            above, path = descriptor, path / part
            try:
                descriptor = _enter(above, part, path)
            finally:
                os.close(above)
        try:
            yield OpenFolder(descriptor, path)
        finally:
            os.close(descriptor)


def _enter(above: int, part: str, path: Path) -> int:
    if part in ("", ".", ".."):
        raise FetchFailed(f"{path}: leads out of its folder")
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=above)
    try:
        return os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError as error:
        _refuse_link(above, part, path)
        raise OSError(error.errno, error.strerror, str(path)) from error


def _refuse_link(folder: int, name: str, path: Path) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise FetchFailed(f"{path} is a link, which is not followed; {REMEDY}")


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """An open folder. Its files are opened through its descriptor, so nothing can put a link on the way."""

    descriptor: int
    path: Path

    def open(self, name: str, flags: int) -> BinaryIO | None:
        """Open a regular file. Return None if it does not exist and ``flags`` do not create it.

        Raises OSError, and FetchFailed if the name belongs to something else.
        """
        path = self.path / name
        # Without O_NONBLOCK, opening a pipe in place of a file would block.
        safe = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, safe, 0o666, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            _refuse_link(self.descriptor, name, path)
            raise OSError(error.errno, error.strerror, str(path)) from error
        # A hard link may be a second name of a file elsewhere.
        if stat.S_ISREG((status := os.fstat(descriptor)).st_mode) and status.st_nlink == 1:
            return os.fdopen(descriptor, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "rb+")
        os.close(descriptor)
        raise FetchFailed(f"{path} is a link, a pipe or a device, or has a second name; {REMEDY}")

    def has(self, name: str) -> bool:
        """Return whether the name exists."""
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
            return True
        return False

    def rename(self, name: str, to: str) -> None:
        """Rename a file here. An existing target is replaced, never written into."""
        os.replace(name, to, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def remove(self, name: str) -> None:
        """Delete a file."""
        os.unlink(name, dir_fd=self.descriptor)
