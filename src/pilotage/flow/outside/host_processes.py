"""Names of processes on this host, which let others on it see that they have ended."""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pilotage.ports.bounded_process import is_hidden, process_start

_SEPARATOR = " "


class HostProcesses:
    """This process and its siblings according to ``/proc``.

    A name consists of host, machine, system start, process namespace, process id, and process start.
    Processes of another host, machine or namespace are unknown, as are all without ``/proc``.
    """

    def __init__(self, number: int | None = None) -> None:
        number = os.getpid() if number is None else number
        machine = _read("/etc/machine-id") or "-"
        boot = _read("/proc/sys/kernel/random/boot_id")
        space = ""
        with suppress(OSError):
            space = str(Path("/proc/self/ns/pid").readlink())
        started = process_start(number)
        self._host = (socket.gethostname(), machine)
        self._system = (boot, space)
        is_known = started is not None and all((*self._host, *self._system))
        parts = (*self._host, *self._system, str(number), str(started))
        self.name = _SEPARATOR.join(parts) if is_known else ""

    def gone(self, names: Iterable[str]) -> frozenset[str]:
        """Return processes of this machine that ended, or that ran before its restart."""
        return frozenset(name for name in names if self._is_gone(name))

    def _is_gone(self, name: str) -> bool:
        parts = name.split(_SEPARATOR)
        if not self.name or len(parts) != 6 or tuple(parts[:2]) != self._host:
            return False
        boot, space, number, started = parts[2:]
        if boot != self._system[0]:
            # Without the machine's id, another one might have the same name.
            return self._host[1] != "-"
        try:
            is_other = str(process_start(int(number))) != started
            return space == self._system[1] and is_other and not is_hidden(int(number))
        except OSError:  # too many open files, or a process of another account
            return False


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
