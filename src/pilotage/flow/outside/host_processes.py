"""Names of processes on this host, by which others on it tell that they have ended."""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pilotage.ports.process_start import process_start

_SEPARATOR = " "


class HostProcesses:
    """This process and its siblings as ``/proc`` shows them.

    A name is host, machine, start of the system, namespace of process numbers, number, and start of the
    process. Processes of another host, machine or namespace are not judged, nor is any without ``/proc``.
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
        known = started is not None and all((*self._host, *self._system))
        parts = (*self._host, *self._system, str(number), str(started))
        self.name = _SEPARATOR.join(parts) if known else ""

    def gone(self, names: Iterable[str]) -> frozenset[str]:
        """Processes of this machine that ended, or ran before it was started anew."""
        return frozenset(name for name in names if self._is_gone(name))

    def _is_gone(self, name: str) -> bool:
        parts = name.split(_SEPARATOR)
        if not self.name or len(parts) != 6 or tuple(parts[:2]) != self._host:
            return False
        boot, space, number, started = parts[2:]
        if boot != self._system[0]:
            # Without a number of its own another machine might have the same name.
            return self._host[1] != "-"
        try:
            return space == self._system[1] and str(process_start(int(number))) != started
        except OSError:  # too many open files, or a process of another account
            return False


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
