"""Processes, clocks and disks of this machine, for the agent and its supervisors.

Every payload starts a supervisor, so this imports only light modules: neither pathlib nor typing.
"""

# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import ctypes
import os
import signal
import stat
import struct
import time

_SIGEV_SIGNAL, _TIMER_ABSTIME = 0, 1
_LAST_CAPABILITY = 63
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_CAPABILITIES_VERSION = 0x20080522
MEGABYTE = 1_000_000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = (
    1,
    4,
    24,
    36,
    38,
)
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Call a function of the C library. Raises OSError if it fails."""
    function = getattr(_libc, name)
    function.restype = ctypes.c_long
    # Pass integers as long for the C library's variadic functions. Shorter ones are sign-extended anyway.
    result: int = function(*(ctypes.c_long(item) if isinstance(item, int) else item for item in arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def now() -> float:
    """Return seconds of a clock that all processes of this machine share and that counts during suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def prctl(option: int, value: int) -> None:
    """Set a property of this process. Raises OSError."""
    call("prctl", option, value, 0, 0, 0)


def drop_capabilities() -> None:
    """Drop root's rights, which users have inside a namespace, also for programs that start later."""
    for capability in range(_LAST_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break
    # The bounding set limits programs that start later. This call drops the rights of this process.
    header = struct.pack("Ii", _CAPABILITIES_VERSION, 0)
    call("capset", header, bytes(24))
    prctl(PR_SET_NO_NEW_PRIVS, 1)


class Deadline:
    """A time when the kernel kills this process, even if it is stopped and cannot act itself."""

    def __init__(self) -> None:
        # Before glibc 2.34 a separate library held the timers.
        self._library = _libc if hasattr(_libc, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)
        event = struct.pack("Qii48x", 0, signal.SIGKILL, _SIGEV_SIGNAL)
        self._timer = ctypes.c_void_p()
        if self._library.timer_create(time.CLOCK_BOOTTIME, event, ctypes.byref(self._timer)):
            raise OSError(ctypes.get_errno(), "timer_create")
        self._moment = 0.0

    def set(self, moment: float) -> None:
        """Let the kernel kill this process at that time of the clock ``now``."""
        if moment != self._moment:
            # Setting 0 would clear the timer.
            self._arm(max(moment, 1.0))
            self._moment = moment

    def clear(self) -> None:
        """Cancel the deadline."""
        self._arm(0.0)

    def _arm(self, moment: float) -> None:
        setting = struct.pack("qqqq", 0, 0, int(moment), int(moment % 1 * 1e9))
        self._library.timer_settime(self._timer, _TIMER_ABSTIME, setting, None)


def guard() -> None:
    """Adopt orphaned descendants. Hide memory and environment from other processes of the same user."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process as soon as its parent dies. Exit if the parent is already dead."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def descendants(root: int) -> list[int]:
    """Return the process ids below ``root``, parents first. Processes that end during the search may be
    missing."""
    processes = [root]
    for process in processes:
        try:
            # Children belong to the thread that started them.
            for thread in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{thread}/children", "rb") as children:
                    processes += [int(child) for child in children.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return processes[1:]


def kill(process: int) -> None:
    """Send SIGKILL to a process, unless it has ended or its number now belongs to another user."""
    try:
        os.kill(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def resident(process: int) -> int:
    """Return a process's resident memory in bytes; 0 if it has ended."""
    try:
        with open(f"/proc/{process}/statm", "rb") as numbers:
            return int(numbers.read().split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0


def proportional(process: int) -> int:
    """Return a process's memory in bytes, counting its part of shared pages; resident memory if that is
    unknown."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as lines:
            # The kernel's kB has 1024 bytes.
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:"))
    except (OSError, StopIteration):
        return resident(process)


def shorten(path: str, limit: int, head: int) -> None:
    """Free the disk blocks in the middle of a file once it takes ``limit`` bytes.

    Keep its first ``head`` bytes and its last quarter of ``limit``. Its size and every reader's position stay
    the same. Do nothing if the file system cannot do this.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(file)
        if stat.S_ISREG(status.st_mode) and status.st_blocks * 512 > limit:
            length = status.st_size - limit // 4 - head
            call("fallocate", file, _PUNCH_HOLE | _KEEP_SIZE, head, length)
    except OSError:
        return
    finally:
        os.close(file)
