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
    kills = 0
    for tree in hierarchies(processes):
        if tree.version == 2 or "memory" in tree.controllers:
            for line in read(str(tree.group / KILLS[tree.version])).splitlines():
                name, _, count = line.partition(" ")
                kills += int(count) if name == "oom_kill" and count.isdecimal() else 0
    return kills


def memory_cause(exit_code: int | None, kills: int, used: float, limit: float, alone: bool = False) -> str:
    """Return ``slot memory`` or ``memory`` if a payload was killed for lack of it; else nothing.

    ``kills`` are those for lack of memory in the pilot's slot since it began. It ``used`` so many bytes of
    its ``limit`` (0: none). An ``exit_code`` of None is unknown. The kernel may kill a
    command of the payload, and its shell ends with a code: any one but 0 if the payload was ``alone`` in the
    slot, so that the kill can only be its own.
    """
    if kills > 0 and alone and exit_code != 0:
        return "slot memory"
    if exit_code not in (-signal.SIGKILL, _BY_SHELL, None):
        return ""
    if kills > 0:
        return "slot memory"
    return "memory" if 0 < limit <= used else ""


def out_of_memory(error: str) -> str:
    """Return the error of a payload that was killed for lack of memory in its pilot's slot.

    Then the batch system's limit of the whole slot was reached, not the payload's own.
    """
    return f"memory exceeded: the kernel killed it for lack of memory in the pilot's slot ({error})"
