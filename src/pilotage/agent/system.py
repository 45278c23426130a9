"""Processes, clocks and disks of this machine, for the agent and its supervisors.

A supervisor starts for every payload, so only the lightest modules are imported: neither pathlib nor typing.
"""

# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import ctypes
import os
import signal
import time

MEGABYTE = 1_000_000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


def now() -> float:
    """Seconds of a clock that all processes of this machine share and that counts while it sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def prctl(option: int, value: int) -> None:
    """Set a property of this process. Raises OSError."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {os.strerror(code)}")


def guard() -> None:
    """Adopt orphaned descendants, and close memory and environment to other processes of the same user."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process as soon as its parent dies; exit where that has happened already."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def descendants(root: int) -> list[int]:
    """Process ids below ``root``, parents first; those that end meanwhile may be missing."""
    found = [root]
    for process in found:
        try:
            for thread in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{thread}/children", "rb") as children:
                    found += [int(child) for child in children.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found[1:]


def kill(process: int) -> None:
    """Send SIGKILL to a process, unless it has ended or belongs to another user by now."""
    try:
        os.kill(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def resident(process: int) -> int:
    """Bytes of memory that a process has resident, 0 where it has ended."""
    try:
        with open(f"/proc/{process}/statm", "rb") as numbers:
            return int(numbers.read().split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0


def proportional(process: int) -> int:
    """Bytes of memory of a process, what it shares with others counted in parts; resident where unknown."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:"))
    except (OSError, StopIteration):
        return resident(process)


def disk_usage(directory: str) -> int:
    """Bytes that a directory takes on disk, all that lies below it included."""
    total, front = 0, [directory]
    while front:
        try:
            with os.scandir(front.pop()) as entries:
                for entry in entries:
                    total += _blocks(entry)
                    if entry.is_dir(follow_symlinks=False):
                        front.append(entry.path)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
    return total


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0
