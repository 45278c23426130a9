"""The control group of one payload: its limits, its usage and its removal.

Version 2 has one tree of groups and version 1 a tree per controller. So a group is one folder or several.
"""

# ruff: noqa: PTH102, PTH106, PTH112, PTH123
from __future__ import annotations

import os
import time
from contextlib import suppress

from ..machine import kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONTAINING = 64
"""Processes and threads of the containing programs, which count in the payload's group."""
REMOVAL = 2.0
"""Seconds that killed processes may take to leave their group."""
_STATISTICS = {1: ("total_rss", "total_shmem"), 2: ("anon", "shmem")}
_PEAKS = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}
KILLS = {1: "memory.oom_control", 2: "memory.events"}


class ControlGroup:
    """A control group: its ``version`` and its folders by controller (cpu, cpuacct, memory, pids; some may be
    missing).

    It limits memory (bytes), processes with their threads, and the share of processors under load.
    """

    def __init__(self, version: int, folders: Mapping[str, str]) -> None:
        self._version, self._folders = version, folders
        self._processes = 0

    @property
    def limits_memory(self) -> bool:
        """Return whether the kernel enforces the payload's memory limit."""
        return "memory" in self._folders

    def make(self, memory: int, processes: int, cores: int) -> None:
        """Make the group with its limits; 0 means no limit. Raises OSError."""
        for folder in sorted(set(self._folders.values())):
            os.mkdir(folder)
        self._processes = processes
        old = self._version == 1
        if memory and "memory" in self._folders:
            self._write("memory", "memory.limit_in_bytes" if old else "memory.max", memory)
            # Kernels that do not count swap lack this file. There a payload may swap.
            with suppress(OSError):
                self._write(
                    "memory", *(("memory.memsw.limit_in_bytes", memory) if old else ("memory.swap.max", 0))
                )
            with suppress(OSError):
                if not old:
                    self._write("memory", "memory.oom.group", 1)
        if processes and "pids" in self._folders:
            self._write("pids", "pids.max", processes + CONTAINING)
        if "cpu" in self._folders:
            # A weight instead of a quota: the payload may use cores that are idle.
            name, weight = (
                ("cpu.shares", min(262_144, 1024 * cores))
                if old
                else ("cpu.weight", min(10_000, 100 * cores))
            )
            self._write("cpu", name, weight)

    def add(self, process: int) -> None:
        """Put a process, and all that it starts later, into the group. Raises OSError."""
        for controller in self._folders:
            self._write(controller, "cgroup.procs", process)

    def memory(self) -> int:
        """Return the bytes that its processes hold.

        Cached files do not count: the kernel drops them before it kills.
        """
        numbers = self._numbers("memory", "memory.stat")
        return sum(numbers.get(name, 0) for name in _STATISTICS[self._version])

    def cpu(self) -> float:
        """Return the CPU time in s of all processes that were ever in the group; 0 if the kernel does not
        count it."""
        if self._version == 1:
            return int(self._read("cpuacct", "cpuacct.usage") or 0) / 1e9
        return self._numbers("cpu", "cpu.stat").get("usage_usec", 0) / 1e6

    def exceeded(self) -> Iterator[tuple[str, float]]:
        """Yield the limits that the group reached: ``group memory`` (most bytes), ``group processes`` (with
        threads)."""
        if self._numbers("memory", KILLS[self._version]).get("oom_kill"):
            yield "group memory", int(self._read("memory", _PEAKS[self._version]) or 0)
        if self._numbers("pids", "pids.events").get("max"):
            yield "group processes", self._processes + CONTAINING

    def kill(self) -> None:
        """Kill every process in the group, in one step where the kernel can (version 2 since Linux 5.14)."""
        for folder in set(self._folders.values()):
            kill_all(folder)

    def remove(self) -> str:
        """Remove the group and every process in it. Return the error, if any."""
        return "; ".join(filter(None, map(remove, sorted(set(self._folders.values())))))

    def _write(self, controller: str, name: str, value: int) -> None:
        with open(f"{self._folders[controller]}/{name}", "w") as file:
            file.write(f"{value}")

    def _read(self, controller: str, name: str) -> str:
        return read(f"{self._folders[controller]}/{name}") if controller in self._folders else ""

    def _numbers(self, controller: str, name: str) -> dict[str, int]:
        pairs = (line.split() for line in self._read(controller, name).splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def read(path: str) -> str:
    """Return the text of a control file; empty if there is none."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def kill_all(folder: str) -> None:
    """Kill every process in a group and in the groups below it."""
    try:
        # Without O_CREAT: do not make the file if it does not exist.
        file = os.open(f"{folder}/cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        for place, _, _ in os.walk(folder):
            for process in read(f"{place}/cgroup.procs").split():
                # Processes outside of this PID namespace have the number 0.
                if int(process):
                    kill(int(process))
    else:
        with suppress(OSError):
            os.write(file, b"1")
        os.close(file)


def remove(folder: str) -> str:
    """Remove a group and those below it, and kill their processes. Return the error, if any."""
    until, fault = time.monotonic() + REMOVAL, ""
    while True:
        for place, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(place)
            except OSError as error:
                fault = f"control group {place}: {error.strerror}"
        if not os.path.isdir(folder):
            return ""
        if time.monotonic() > until:
            return fault
        kill_all(folder)
        time.sleep(0.01)
