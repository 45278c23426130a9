"""Kills for lack of memory in the pilot's slot, as its control groups count them."""

from __future__ import annotations

import signal
from pathlib import Path

from .control_group import KILLS, read
from .delegated_groups import hierarchies

_BY_SHELL = 128 + signal.SIGKILL
"""The exit code of a shell whose command was killed."""


def oom_kills(processes: Path = Path("/proc/self")) -> int:
    """Return how many processes of this process's control groups were killed for lack of memory so far."""
    found = 0
    for one in hierarchies(processes):
        if one.version == 2 or "memory" in one.controllers:
            for line in read(str(one.own / KILLS[one.version])).splitlines():
                name, _, count = line.partition(" ")
                found += int(count) if name == "oom_kill" and count.isdecimal() else 0
    return found


def explained(error: str, exit_code: int | None, kills: int) -> str:
    """Return the error of a payload that was killed while the slot had ``kills`` for lack of memory.

    The batch system's limit then holds for all of the slot, whatever the payload's own limit is.
    """
    was_killed = exit_code in (-signal.SIGKILL, _BY_SHELL) or exit_code is None
    if kills < 1 or not error or not was_killed:
        return error
    return f"memory exceeded: the kernel killed it for lack of memory in the pilot's slot ({error})"
