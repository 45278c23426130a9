"""The supervisor of one payload: a small process between the agent and everything that the payload starts.

Each payload gets one, started with ``python -I -S``. So it imports only light modules: neither pathlib,
typing nor json. It adopts all processes that its payload leaves behind and enforces the limits. It kills
everything when the agent sends ``stop``, dies, or does not renew the lease. So no attempt outlives its
pilot, however the pilot ends. Even an agent that hangs loses its payloads.

Standard input: the order (its length in 8 digits, then ``marshal`` of a dictionary), then lines. A line is
``stop``, ``points``, or the lease's new end in s of the clock ``now``. If the input ends without
``stop``, the agent is gone. Standard output: lines of Python literals. Each ``points`` is answered with the
time line so far; the last line is ``Supervisor.result``.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import sys
import time
from contextlib import suppress

from ..machine import Deadline, descendants, guard, kill, now, proportional, resident, shorten
from .containment import WITH_INIT, launch
from .control_group import ControlGroup
from .timeline import BLOCK, Timeline
from .trees import UnmeasuredError, disk_usage, remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

LOOK_EVERY = 0.5
INFINITE = 1 << 62
LEFT_BEHIND_GRACE = 1.0
LONGEST_STREAM, STREAM_HEAD = 64_000_000, 1_000_000
"""Longest standard output or error on disk, in bytes, and how much of the beginning a cut keeps."""
FENCE_DELAY = 1.0
"""Seconds after the lease's end at which the kernel kills a supervisor that did not act itself."""


class Control:
    """Messages from the agent: the lease's end, ``stopped`` and ``asked``.

    ``orphaned`` is true once the agent is gone.
    """

    def __init__(self, descriptor: int) -> None:
        self.stopped = self.orphaned = self.asked = False
        self._descriptor = descriptor
        self._rest = b""
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # A signal between the last check and select would go unnoticed. The byte in this pipe does not.
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # Ignored signals do not wake select, so there has to be a handler.
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

    def wait(self, seconds: float, pipe: int) -> list[int]:
        """Wait until a child ends, the agent or ``pipe`` sends something, or the time is up."""
        # A closed pipe is always ready: listening on would keep the processor busy.
        pipes = [self._wake] if self.stopped else [self._wake, self._descriptor]
        pipes += [pipe] if pipe >= 0 else []
        ready = select.select(pipes, [], [], max(0.0, seconds))[0]
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._descriptor in ready:
            self._hear()
        return ready

    def _hear(self) -> None:
        data = os.read(self._descriptor, 65536)
        if not data:
            self.stopped = self.orphaned = True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line == b"stop":
                self.stopped = True
            elif line == b"points":
                self.asked = True
            else:
                self.lease_end = float(line)


class Supervisor:
    """One payload with all its descendants, from its start until none is left."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.order = control.order
        self.started = now()
        self.status: int | None = None
        self.cpu = 0.0
        self.max_rss = 0
        self.read_blocks = self.written_blocks = 0
        self._process, self._reader = 0, -1
        self._begun, self._rest = False, b""
        self._failure: tuple[str, float | str] = "", 0
        self._seen: list[int] = []
        self._has_init = self.order["containment"]["mechanism"] in WITH_INIT
        self.group_fault = ""
        self._group = self._made_group()
        self._deadline = Deadline()
        self._timeline = Timeline()
        self._look_at_disk = 0.0
        self._unmeasured = ""
        self._disk_at_start = self.max_disk = 0
        self.disk_room = INFINITE
        # This measurement is the baseline: it counts from 0 and sets the maximum to the current use.
        self._disk_at_start = self._disk_used()
        self.max_disk = 0

    def run(self) -> dict[str, Any]:
        """Run it to its end. ``result`` lists the causes."""
        if now() >= self.control.lease_end:
            self._leave_group()
            return self.result("lease", 0.0)
        if not self._start():
            self._kill_all()
            self.status = None
            return self.result(*self._failure)
        cause, value = self._watch()
        if cause in ("ended", "processes"):
            # The kernel kills immediately, so the payload may have ended between two checks.
            cause, value = next(self._exceeded(), (cause, value))
        self._kill_all()
        if cause in ("ended", "processes"):
            cause, value = next(self._too_large(), (cause, value))
        return self.result(cause, value)

    def result(self, cause: str, value: float | str) -> dict[str, Any]:
        """Return how the payload ended: a ``cause`` with a ``value``, and measurements.

        - The payload: ended, not started (an errno), not contained (a text), processes (how many it left).
        - The agent: stopped, lease.
        - The limits: walltime (s), memory (bytes), work directory (bytes), too many processes.
        - The control group: group memory, group processes.
        - The work directory cannot be measured: unmeasured (a text).

        ``status`` is as in wait(2); CPU and wall time are in s; points are as in ``timeline``;
        ``group_fault`` comes from the control group. ``room`` are the fewest bytes that the disk had free,
        beside what the payload had written.
        """
        return {
            "cause": cause,
            "value": value,
            "status": self.status,
            "cpu": self.cpu,
            "wall": now() - self.started,
            "rss": self.max_rss,
            "disk": self.max_disk,
            "room": self.disk_room,
            "io": (self.read_blocks + self.written_blocks) * BLOCK,
            "points": self._timeline.points,
            "group_fault": self.group_fault,
        }

    def _made_group(self) -> ControlGroup | None:
        """Return the control group with its limits.

        Return None if there is none and the supervisor watches the limits.
        """
        if not self.order["group"]:
            return None
        group = ControlGroup(**self.order["group"])
        try:
            group.make(self.order["memory"], self.order["processes"], self.order["cores"])
        except OSError as error:
            self.group_fault = "; ".join(filter(None, (f"no control group: {error}", group.remove())))
            return None
        return group

    def _enter_group(self) -> None:
        """Put the payload's first process into its group before it starts anything."""
        try:
            if self._group:
                self._group.add(self._process)
        except OSError as error:
            self._leave_group()
            self.group_fault = f"no control group: {error}"

    def _leave_group(self) -> None:
        """Read the group's counters, and remove the group."""
        if self._group:
            self.cpu = self._group.cpu() or self.cpu
            self.group_fault = self._group.remove()
            self._group = None

    def _start(self) -> bool:
        """Fork and execute the payload. Return False if that failed."""
        self._reader, writer = os.pipe2(os.O_CLOEXEC)
        supervisor = os.getpid()
        gate, opener = os.pipe2(os.O_CLOEXEC)
        self._process = os.fork()
        if self._process == 0:
            os.close(opener)
            # This returns when the supervisor has put this process into its control group, or has died.
            os.read(gate, 1)
            launch(self.order, supervisor, writer)
        self._enter_group()
        for end in (gate, opener, writer):
            os.close(end)
        while not self._begun and self._reader >= 0:
            self._listen()
        return self._begun

    def _listen(self) -> None:
        """Read the messages of the payload's start, or of its init; see ``containment``."""
        data = os.read(self._reader, 4096)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, value = line.decode(errors="replace").partition(" ")
            if word == "started":
                self._begun = True
            elif word == "ended":
                self.status = int(value)
            else:
                self._failure = ("not started", int(value)) if word == "error" else ("not contained", value)
        if not data:
            os.close(self._reader)
            self._reader = -1
            # A payload without an init closes its end when it executes its command.
            self._begun = self._begun or not (self._has_init or self._failure[0])
            if not (self._begun or self._failure[0]):
                self._failure = "not contained", "it ended before it started the payload"

    def _processes(self) -> list[int]:
        """Return the payload's processes, without its init and the init's parent."""
        processes = descendants(os.getpid())
        if not self._has_init:
            return processes
        first = descendants(self._process)[:1]
        return [process for process in processes if process not in (self._process, *first)]

    def _watch(self) -> tuple[str, float | str]:
        """Wait until the payload has ended or must end. Return the cause, and the number behind it."""
        while self.status is None:
            self._deadline.set(self.control.lease_end + FENCE_DELAY)
            self._wait(min(LOOK_EVERY, self.control.lease_end - now()))
            self._reap()
            self._answer()
            reason = next(self._reasons_to_kill(), None)
            if self.status is None and reason:
                return reason
        # Shells leave children that end a moment later. That is not worth a failed job.
        until = now() + LEFT_BEHIND_GRACE
        while self._reap() and now() < until and not self.control.stopped:
            self._wait(until - now())
        remaining = len(self._processes())
        return ("processes", remaining) if remaining else ("ended", 0.0)

    def _answer(self) -> None:
        """Send the time line so far, if the agent has asked for it."""
        if self.control.asked:
            self.control.asked = False
            tell(self._timeline.points)

    def _wait(self, seconds: float) -> None:
        if self._reader in self.control.wait(seconds, self._reader):
            self._listen()

    def _reasons_to_kill(self) -> Iterator[tuple[str, float | str]]:
        order, wall, memory = self.order, now() - self.started, self._memory()
        if self.control.stopped:
            yield "stopped", 0.0
        if now() >= self.control.lease_end:
            yield "lease", 0.0
        if 0 < order["walltime"] <= wall:
            yield "walltime", wall
        yield from self._exceeded()
        if 0 < order["memory"] < memory:
            yield "memory", memory
        if len(self._seen) > order["processes"]:
            yield "too many processes", len(self._seen)
        if now() >= self._look_at_disk:
            if self.order["cut"]:
                for stream in ("stdout", "stderr"):
                    shorten(f"{order['directory']}/{stream}", LONGEST_STREAM, STREAM_HEAD)
            yield from self._too_large()

    def _too_large(self) -> Iterator[tuple[str, float | str]]:
        """Check whether the work directory exceeds its limit or cannot be measured."""
        used = self._disk_used()
        if used > self.order["workdir"] > 0:
            yield "work directory", used
        elif self._unmeasured and self.order["workdir"] > 0:
            yield "unmeasured", self._unmeasured

    def _exceeded(self) -> Iterator[tuple[str, float]]:
        """Yield the limits that its control group has reached."""
        for cause, value in self._group.exceeded() if self._group else ():
            if cause == "group memory":
                self.max_rss = max(self.max_rss, int(value))
            yield cause, value

    def _memory(self) -> int:
        """Return the memory of all processes in bytes. Shared pages count once where that matters."""
        self._seen = processes = self._processes()
        if self._group and self._group.limits_memory:
            memory = self._group.memory()
        else:
            memory = sum(map(resident, processes))
            # Counting shared pages once is slow: do it only if the sum could matter.
            if (len(processes) > 1 and memory > self.max_rss) or 0 < self.order["memory"] < memory:
                memory = sum(map(proportional, processes))
        self.max_rss = max(self.max_rss, memory)
        self._timeline.look(
            processes, memory, self.cpu, self.read_blocks * BLOCK, self.written_blocks * BLOCK
        )
        return memory

    def _disk_used(self) -> int:
        """Return the bytes that the payload added. Large trees are measured less often."""
        begun = now()
        try:
            used = disk_usage(self.order["directory"], self._seen) - self._disk_at_start
            self._unmeasured = ""
        except UnmeasuredError as error:
            used, self._unmeasured = self.max_disk, str(error)
        self._look_at_disk = now() + 20 * (now() - begun)
        self.max_disk = max(self.max_disk, used)
        with suppress(OSError):
            disk = os.statvfs(self.order["directory"])
            self.disk_room = min(self.disk_room, disk.f_bavail * disk.f_frsize + used)
        return used

    def _reap(self) -> bool:
        """Collect the children that have ended. Return False if no child is left."""
        while True:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            self.cpu += usage.ru_utime + usage.ru_stime
            self.read_blocks += usage.ru_inblock
            self.written_blocks += usage.ru_oublock
            self.max_rss = max(self.max_rss, usage.ru_maxrss * 1024)
            if process == self._process:
                self._take_last_words()
                self.status = status if self.status is None else self.status

    def _take_last_words(self) -> None:
        """Read the init's last messages. Without any, its own exit status counts as the payload's."""
        while self._has_init and self._reader >= 0:
            self._listen()

    def _kill_all(self) -> None:
        """Kill every process, and return only when none is left. New forks are killed in the next round."""
        self._deadline.clear()
        if self._group:
            self._group.kill()
        pause = 0.001
        while self._reap():
            for process in descendants(os.getpid()):
                kill(process)
            time.sleep(pause)
            # Most processes end within a millisecond. One that hangs in the kernel must not cost a processor.
            pause = min(0.1, pause * 1.1)
        self._leave_group()


def tell(value: object) -> bool:
    """Write a literal for the agent. Return False if the agent is gone."""
    try:
        os.write(1, f"{value!r}\n".encode())
    except BrokenPipeError:
        return False
    return True


def main(descriptor: int, _name: str) -> None:
    """Read an order, run the payload, and report its end. Clean up if the agent is gone."""
    # Batch systems send it to all processes of a slot, but the agent decides what happens to payloads.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    guard()
    control = Control(descriptor)
    if not tell(Supervisor(control).run()):
        control.orphaned = True
    if control.orphaned and not control.order["keep"]:
        # Ignore what cannot be removed: the next pilot removes it.
        with suppress(OSError):
            remove_tree(control.order["directory"])
    os._exit(0)
