# ruff: noqa: PTH123, PTH208
"""The supervisor of one payload: a small process between the agent and all that the payload starts.

One is started for every payload, by path, with ``python -I -S``, so only the lightest modules are imported,
neither pathlib, typing nor json. It adopts whatever its payload leaves behind, enforces the limits, and kills
everything when the agent says so, dies, or does not renew the lease: so no attempt outlives its pilot,
however the pilot ends, and an agent that hangs is fenced all the same.

Standard input: the order (its length in 8 digits, then ``marshal`` of a dictionary), then lines: ``stop``, or
the lease's new end in s of the clock :func:`now`; its end without ``stop`` means that the agent is gone.
Standard output: :meth:`Payload.result` as a Python literal.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

MEGABYTE = 1_000_000
LOOK_EVERY = 0.5
LEFT_BEHIND_GRACE = 1.0
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
    """SIGKILL to a process; one that has ended, or belongs to somebody else by now, is met again or not."""
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


class Control:
    """What the agent says: the end of the lease, and when to stop; ``orphaned`` when it is gone."""

    def __init__(self, descriptor: int) -> None:
        self.stopped = self.orphaned = False
        self._descriptor = descriptor
        self._rest = b""
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.order: Mapping[str, Any] = marshal.loads(self._exactly(int(self._exactly(8))))
        self.lease_end = float(self.order["lease_end"])

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = os.read(self._descriptor, size - len(data))
            if not part:
                sys.exit("the agent ended before it gave an order")
            data += part
        return data

    def wait(self, seconds: float) -> None:
        """Until a child ends, the agent says something, or the time is over."""
        heard = [self._wake] if self.stopped else [self._wake, self._descriptor]
        ready = select.select(heard, [], [], max(0.0, seconds))[0]
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._descriptor in ready:
            self._hear()

    def _hear(self) -> None:
        data = os.read(self._descriptor, 65536)
        if not data:
            self.stopped = self.orphaned = True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line == b"stop":
                self.stopped = True
            else:
                self.lease_end = float(line)


class Payload:
    """One payload with all its descendants, from its start until none of them is left."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.order = control.order
        self.started = now()
        self.status: int | None = None
        self.cpu = 0.0
        self.max_rss = 0
        self._process = 0
        self._look_at_disk = 0.0
        self._disk_at_start = self.max_disk = 0
        self._disk_at_start = self._disk_used()
        self.max_disk = 0

    def run(self) -> dict[str, Any]:
        """Run it to its end. The causes are those of :meth:`result`."""
        if now() >= self.control.lease_end:
            return self.result("lease", 0.0)
        failure = self._start()
        if failure:
            return self.result("not started", failure)
        cause, value = self._watch()
        self._kill_all()
        if cause == "ended" and (used := self._disk_used()) > self.order["workdir"] > 0:
            cause, value = "work directory", used
        return self.result(cause, value)

    def result(self, cause: str, value: float) -> dict[str, Any]:
        """``cause`` is ended, not started (``value`` an errno), stopped, lease, walltime (s), memory (bytes),
        work directory (bytes) or processes (how many); ``status`` as of wait(2); CPU and wall time in s."""
        return {
            "cause": cause,
            "value": value,
            "status": self.status,
            "cpu": self.cpu,
            "wall": now() - self.started,
            "rss": self.max_rss,
            "disk": self.max_disk,
        }

    def _start(self) -> int:
        """Fork and execute. Returns an errno where that failed, else 0."""
        heard, told = os.pipe2(os.O_CLOEXEC)
        supervisor = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            try:
                self._become(supervisor)
            except OSError as error:
                os.write(told, str(error.errno or errno.EINVAL).encode())
            except (ValueError, TypeError):
                os.write(told, str(errno.EINVAL).encode())
            finally:
                os._exit(127)
        os.close(told)
        failure = int(os.read(heard, 16) or 0)
        os.close(heard)
        return failure

    def _become(self, supervisor: int) -> None:
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(self.order["directory"])
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open("stdout", create, 0o644), 1)
        os.dup2(os.open("stderr", create, 0o644), 2)
        command = self.order["command"]
        os.execvpe(command[0], command, self.order["environment"])

    def _watch(self) -> tuple[str, float]:
        """Until the payload has ended or must end: why, and the number that decided."""
        while self.status is None:
            self.control.wait(min(LOOK_EVERY, self.control.lease_end - now()))
            self._reap()
            reason = next(self._reasons_to_kill(), None)
            if self.status is None and reason:
                return reason
        until = now() + LEFT_BEHIND_GRACE
        while self._reap() and now() < until and not self.control.stopped:
            self.control.wait(until - now())
        left = len(descendants(os.getpid()))
        return ("processes", left) if left else ("ended", 0.0)

    def _reasons_to_kill(self) -> Iterator[tuple[str, float]]:
        order, wall, memory = self.order, now() - self.started, self._memory()
        if self.control.stopped:
            yield "stopped", 0.0
        if now() >= self.control.lease_end:
            yield "lease", 0.0
        if 0 < order["walltime"] <= wall:
            yield "walltime", wall
        if 0 < order["memory"] < memory:
            yield "memory", memory
        if now() >= self._look_at_disk:
            used = self._disk_used()
            if used > order["workdir"] > 0:
                yield "work directory", used

    def _memory(self) -> int:
        """Bytes of all processes together; pages that they share are counted once where that matters."""
        processes = descendants(os.getpid())
        memory = sum(map(resident, processes))
        if (len(processes) > 1 and memory > self.max_rss) or 0 < self.order["memory"] < memory:
            memory = sum(map(proportional, processes))
        self.max_rss = max(self.max_rss, memory)
        return memory

    def _disk_used(self) -> int:
        """Bytes that the payload added; a tree that takes long to read is looked at less often."""
        begun = now()
        used = disk_usage(self.order["directory"]) - self._disk_at_start
        self._look_at_disk = now() + 20 * (now() - begun)
        self.max_disk = max(self.max_disk, used)
        return used

    def _reap(self) -> bool:
        """Take leave of all that ended. False when no child is left."""
        while True:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            self.cpu += usage.ru_utime + usage.ru_stime
            self.max_rss = max(self.max_rss, usage.ru_maxrss * 1024)
            if process == self._process:
                self.status = status

    def _kill_all(self) -> None:
        """Return only when nothing is left; a process that forks while it is killed is met again."""
        pause = 0.001
        while self._reap():
            for process in descendants(os.getpid()):
                kill(process)
            time.sleep(pause)
            pause = min(0.1, pause * 1.1)


def main() -> None:
    """Take an order, run the payload, say how it ended; clean up for an agent that is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    guard()
    control = Control(0)
    result = repr(Payload(control).run())
    try:
        os.write(1, result.encode())
    except BrokenPipeError:
        control.orphaned = True
    if control.orphaned and not control.order["keep"]:
        import shutil

        shutil.rmtree(control.order["directory"], ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
