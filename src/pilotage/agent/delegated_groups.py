"""The control groups that an agent may make for its payloads, found by making one."""

from __future__ import annotations

import errno
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .control_group import ControlGroup, read, remove

log = logging.getLogger(__name__)
CONTROLLERS = ("cpu", "cpuacct", "memory", "pids")
LEAF = "pilotage-agents"
"""The group of agents where version 2 lets no process be in a group that has groups with limits below it."""
WATCHING = "watching"
_NAME = re.compile(r"pilotage-(\d+)-(\d+)-(\d+)\..+")
_ESCAPED = re.compile(r"\\([0-7]{3})")


class NotDelegatedError(Exception):
    """No groups can be made there; the message says why."""


@dataclass(frozen=True)
class Hierarchy:
    """A tree of control groups with the controllers it has, its root, and the own group of a process."""

    version: int
    controllers: tuple[str, ...]
    root: Path
    own: Path


@dataclass(frozen=True)
class DelegatedGroups:
    """The groups, by controller, below which an agent makes those of its payloads; or the reason for none."""

    version: int = 0
    parents: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""

    @property
    def name(self) -> str:
        """The way payloads are held to limits: ``cgroup v1``, ``cgroup v2`` or ``watching``."""
        return f"cgroup v{self.version}" if self.parents else WATCHING

    def group(self, attempt: str) -> dict[str, Any]:
        """The group of an attempt as :class:`ControlGroup` takes it; empty where there is none."""
        if not self.parents:
            return {}
        name = f"{_own_name()}.{attempt}"
        return {
            "version": self.version,
            "folders": {controller: f"{parent}/{name}" for controller, parent in self.parents.items()},
        }

    def remove(self, attempt: str) -> None:
        """Remove the group of an attempt whose supervisor could not."""
        group = self.group(attempt)
        if group and (fault := ControlGroup(**group).remove()):
            log.warning("%s", fault)


def find(processes: Path = Path("/proc/self")) -> DelegatedGroups:
    """Find out whether groups can be made here, of version 2 or else 1, and remove those of killed agents."""
    found = [one for one in hierarchies(processes) if set(CONTROLLERS) & set(one.controllers)]
    faults = []
    for version in (2, 1):
        own = [one for one in found if one.version == version]
        try:
            if own:
                return _tried(version, own)
        except (NotDelegatedError, OSError) as fault:
            faults.append(f"cgroup v{version}: {fault}")
    return DelegatedGroups(fault="; ".join(faults) or "this machine shows no control groups")


def hierarchies(processes: Path = Path("/proc/self")) -> Iterator[Hierarchy]:
    """The trees of control groups that this process sees, and its place in each."""
    own = dict(_memberships(processes / "cgroup"))
    for line in read(str(processes / "mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        mounted, place = map(_unescaped, before.split()[3:5])
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            names: tuple[str, ...] = ("",)
        elif kind == "cgroup":
            names = tuple(name for name in options.split(",") if name in own)
        else:
            continue
        if not names or names[0] not in own:
            continue
        # Of a tree of which only a part is mounted, as in containers, what lies elsewhere is not seen.
        inside = os.path.relpath(own[names[0]], mounted)
        group = Path(place) / inside
        if inside.startswith("..") or not group.is_dir():
            continue
        if kind == "cgroup2":
            names = tuple(read(str(group / "cgroup.controllers")).split())
        yield Hierarchy(2 if kind == "cgroup2" else 1, names, Path(place), group)


def _memberships(path: Path) -> Iterator[tuple[str, str]]:
    """The path of a process's group by controller; the empty name is version 2."""
    for line in read(str(path)).splitlines():
        _, names, group = line.split(":", 2)
        yield from ((name, group) for name in names.split(","))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


def _tried(version: int, own: list[Hierarchy]) -> DelegatedGroups:
    """The parents of groups that can be made. Raises NotDelegatedError and OSError."""
    parents: dict[str, str] = {}
    faults = []
    for one in own:
        wanted = tuple(name for name in CONTROLLERS if name in one.controllers)
        parent = _opened(one, wanted) if version == 2 else one.own
        _sweep(parent)
        part = DelegatedGroups(version, dict.fromkeys(wanted, str(parent)))
        try:
            _try(part)
        except OSError as error:
            faults.append(f"{error.filename or parent}: {error.strerror}")
        else:
            parents.update(part.parents)
    if not parents:
        raise NotDelegatedError("; ".join(faults))
    for fault in faults:
        log.info("payloads are not limited by %s", fault)
    return DelegatedGroups(version, parents)


def _try(part: DelegatedGroups) -> None:
    """Make a group with limits and put a process into it. Raises OSError where that cannot be done."""
    group = ControlGroup(**part.group("trial"))
    # It ends with its standard input.
    command = (sys.executable, "-I", "-S", "-c", "input()")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            group.make(1 << 30, 1000, 1)
            group.add(process.pid)
        finally:
            process.kill()
            process.wait()
            if fault := group.remove():
                log.warning("%s", fault)


def _opened(own: Hierarchy, wanted: tuple[str, ...]) -> Path:
    """A group of version 2 below which groups have these controllers.

    Raises NotDelegatedError and OSError.
    """
    parent = own.own.parent if own.own.name == LEAF else own.own
    if os.geteuid() == 0 and parent != own.root and not _is_delegated(parent):
        # Root could, but what nobody delegated is somebody else's to order, systemd's for example.
        raise NotDelegatedError(f"{parent} is not delegated")
    order = " ".join(f"+{name}" for name in wanted)
    control = parent / "cgroup.subtree_control"
    if set(wanted) <= set(read(str(control)).split()):
        return parent
    try:
        control.write_text(order)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        leaf = parent / LEAF
        leaf.mkdir(exist_ok=True)
        _move(parent, leaf)
        try:
            control.write_text(order)
        except OSError:
            _move(leaf, parent)
            with suppress(OSError):
                leaf.rmdir()
            raise
    return parent


def _is_delegated(group: Path) -> bool:
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


def _move(source: Path, target: Path) -> None:
    """Move every process from one group to another; those that end meanwhile are left alone."""
    for process in read(str(source / "cgroup.procs")).split():
        with suppress(ProcessLookupError):
            (target / "cgroup.procs").write_text(process)


def _own_name() -> str:
    """The beginning of the names of this agent's groups: its PID namespace, number, and start."""
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    return f"pilotage-{namespace}-{os.getpid()}-{_start(os.getpid())}"


def _start(process: int) -> int:
    """Ticks since the machine's boot at which a process began; 0 where there is none."""
    numbers = read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return int(numbers[19]) if numbers else 0


def _sweep(parent: Path) -> None:
    """Remove groups of agents that have ended; those of other PID namespaces cannot be told, and stay."""
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    for folder in parent.glob("pilotage-*"):
        found = _NAME.fullmatch(folder.name)
        if not found or int(found[1]) != namespace or _start(int(found[2])) == int(found[3]):
            continue
        if fault := remove(str(folder)):
            log.warning("left by an agent that was killed: %s", fault)
