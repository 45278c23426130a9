"""Measure and remove folders that a payload filled, of any depth and permissions.

A supervisor imports this, so it uses only light modules: neither pathlib nor typing.
"""

# ruff: noqa: PTH101, PTH116, PTH208
from __future__ import annotations

import os
import stat
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DEEPEST = 100
"""Deepest nesting of folders that is measured: each level takes a descriptor."""
MOST_ENTRIES = 1_000_000
"""Most files and folders that are measured: it takes seconds without a watch on the payload."""
_BLOCK = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnmeasuredError(Exception):
    """A folder cannot be measured; the message has the reason."""


def disk_usage(directory: str, processes: Iterable[int] = ()) -> int:
    """Return the bytes that a folder takes on disk, plus deleted files on its disk that processes still hold
    open.

    Folders without permissions are opened too, if they belong to this user. Raises UnmeasuredError.
    """
    above, name = os.path.split(directory.rstrip("/"))
    try:
        parent = os.open(above or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            device = os.stat(name, dir_fd=parent, follow_symlinks=False).st_dev
            return _entered(parent, name, 0, [MOST_ENTRIES]) + _deleted(processes, device)
        finally:
            os.close(parent)
    except FileNotFoundError:
        return 0
    except (OSError, RecursionError) as error:
        raise UnmeasuredError(str(error)) from error


def _usage(folder: int, depth: int, budget: list[int]) -> int:
    """Return the bytes below an open folder, then close it. ``budget``: how many more entries may be read."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                budget[0] -= 1
                if budget[0] < 0:
                    raise UnmeasuredError(f"it has more than {MOST_ENTRIES} files and folders")
                with suppress(FileNotFoundError):
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        total += _entered(folder, entry.name, depth + 1, budget)
    finally:
        os.close(folder)
    return total


def _entered(above: int, name: str, depth: int, budget: list[int]) -> int:
    if depth > DEEPEST:
        raise UnmeasuredError(f"it has more than {DEEPEST} folders within each other")
    try:
        return _usage(os.open(name, _FOLDER, dir_fd=above), depth, budget)
    except (NotADirectoryError, FileNotFoundError):
        return 0
    except PermissionError:
        mode = _opened_up(above, name)
    try:
        return _usage(os.open(name, _FOLDER, dir_fd=above), depth, budget)
    except PermissionError as error:
        raise UnmeasuredError("a folder in it cannot be read") from error
    finally:
        _set_mode(above, name, mode)


def _opened_up(above: int, name: str) -> int:
    """Give this user all rights on a folder. Return its previous mode. Raises UnmeasuredError."""
    mode = stat.S_IMODE(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    try:
        _set_mode(above, name, mode | stat.S_IRWXU)
    except PermissionError as error:
        raise UnmeasuredError("a folder in it belongs to another user") from error
    return mode


def _set_mode(above: int, name: str, mode: int) -> None:
    # Setting a mode by name would follow links. Setting it through a descriptor does not.
    with suppress(FileNotFoundError, NotADirectoryError):
        place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{place}", mode)
        finally:
            os.close(place)


def _deleted(processes: Iterable[int], device: int) -> int:
    """Return the bytes of deleted files on a disk, each counted once.

    Skip processes that are closed to us.
    """
    sizes: dict[int, int] = {}
    for process in processes:
        folder = f"/proc/{process}/fd"
        with suppress(OSError):
            for number in os.listdir(folder):
                with suppress(OSError):
                    file = os.stat(f"{folder}/{number}")
                    if not file.st_nlink and file.st_dev == device and stat.S_ISREG(file.st_mode):
                        sizes[file.st_ino] = file.st_blocks * _BLOCK
    return sum(sizes.values())


def remove_tree(directory: str) -> None:
    """Delete a folder with all its content, of any depth and permissions. A link is removed, not
    followed.

    Raises OSError if something stays.
    """
    above, name = os.path.split(directory.rstrip("/"))
    parent = os.open(above or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _unlinked(parent, name):
            _emptied(parent, name)
            os.rmdir(name, dir_fd=parent)
    finally:
        os.close(parent)


def _unlinked(folder: int, name: str) -> bool:
    """Delete anything except a folder. Return False if it is a folder."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    return True


def _emptied(above: int, name: str) -> None:
    """Delete the content of a folder. Each subfolder moves up into it first, so no path gets long."""
    _set_mode(above, name, 0o700)
    top = os.open(name, _FOLDER, dir_fd=above)
    try:
        waiting = [entry for entry in os.listdir(top) if not _unlinked(top, entry)]
        # The payload cannot have used these names.
        number, moved = 0, os.urandom(8).hex()
        while waiting:
            inner = waiting.pop()
            _set_mode(top, inner, 0o700)
            folder = os.open(inner, _FOLDER, dir_fd=top)
            try:
                for entry in os.listdir(folder):
                    if not _unlinked(folder, entry):
                        # Moving a folder changes its ``..`` entry, which needs write permission.
                        _set_mode(folder, entry, 0o700)
                        number += 1
                        os.rename(entry, f"{moved}.{number}", src_dir_fd=folder, dst_dir_fd=top)
                        waiting.append(f"{moved}.{number}")
            finally:
                os.close(folder)
            os.rmdir(inner, dir_fd=top)
    finally:
        os.close(top)


def entries(folder: Path) -> list[Path]:
    """Return what a folder holds, in order: nothing, if somebody removes it now. Raises other OSErrors."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
