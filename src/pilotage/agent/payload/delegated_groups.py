"""Control groups that the agent may make for its payloads. It finds out by making one."""

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
"""The group for agents. Version 2 lets no process sit in a group whose subgroups have limits."""
WATCHING = "watching"
_NAME = re.compile(r"pilotage-(\d+)-(\d+)-(\d+)\..+")
_ESCAPED = re.compile(r"\\([0-7]{3})")


class NotDelegatedError(Exception):
    """The agent cannot make groups there; the message has the reason."""


@dataclass(frozen=True)
class Hierarchy:
    """A tree of control groups: its controllers, its root, and the process's ``group``."""

    version: int
    controllers: tuple[str, ...]
    root: Path
    group: Path


@dataclass(frozen=True)
class DelegatedGroups:
    """The parent groups, by controller, for the groups of payloads; or the reason why there are none."""

    version: int = 0
    parents: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""

    @property
    def name(self) -> str:
        """The way payloads are limited: ``cgroup v1``, ``cgroup v2`` or ``watching``."""
        return f"cgroup v{self.version}" if self.parents else WATCHING

    def group(self, attempt: str) -> dict[str, Any]:
        """Return the arguments of an attempt's ``ControlGroup``; empty if it gets no group."""
        if not self.parents:
            return {}
        name = f"{_own_name()}.{attempt}"
        return {
            "version": self.version,
            "folders": {controller: f"{parent}/{name}" for controller, parent in self.parents.items()},
        }

    def remove(self, attempt: str) -> None:
        """Remove the group of an attempt, because its supervisor could not."""
        group = self.group(attempt)
        if group and (fault := ControlGroup(**group).remove()):
            log.warning("%s", fault)


def find(processes: Path = Path("/proc/self")) -> DelegatedGroups:
    """Find out whether groups can be made here, of version 2 or else 1.

    Remove the groups of killed agents.
    """
    trees = [tree for tree in hierarchies(processes) if set(CONTROLLERS) & set(tree.controllers)]
    faults = []
    for version in (2, 1):
        candidates = [tree for tree in trees if tree.version == version]
        try:
            if candidates:
                return _tried(version, candidates)
        except (NotDelegatedError, OSError) as fault:
            faults.append(f"cgroup v{version}: {fault}")
    return DelegatedGroups(fault="; ".join(faults) or "this machine shows no control groups")


def hierarchies(processes: Path = Path("/proc/self")) -> Iterator[Hierarchy]:
    """Yield the trees of control groups that this process sees, with its own group in each."""
    memberships = dict(_memberships(processes / "cgroup"))
    for line in read(str(processes / "mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        mounted, place = map(_unescaped, before.split()[3:5])
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            names: tuple[str, ...] = ("",)
        elif kind == "cgroup":
            names = tuple(name for name in options.split(",") if name in memberships)
        else:
            continue
        if not names or names[0] not in memberships:
            continue
        # Containers mount only a part of a tree. Groups outside this part are invisible.
        inside = os.path.relpath(memberships[names[0]], mounted)
        group = Path(place) / inside
        if inside.startswith("..") or not group.is_dir():
            continue
        if kind == "cgroup2":
            names = tuple(read(str(group / "cgroup.controllers")).split())
        yield Hierarchy(2 if kind == "cgroup2" else 1, names, Path(place), group)


def _memberships(path: Path) -> Iterator[tuple[str, str]]:
    """Yield controller and path of each of a process's groups. The empty name means version 2."""
    for line in read(str(path)).splitlines():
        _, names, group = line.split(":", 2)
        yield from ((name, group) for name in names.split(","))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def _tried(version: int, trees: list[Hierarchy]) -> DelegatedGroups:
    """Return the parent groups that groups can be made in. Raises NotDelegatedError and OSError."""
    parents: dict[str, str] = {}
    faults = []
    for tree in trees:
        controllers = tuple(name for name in CONTROLLERS if name in tree.controllers)
        parent = _opened(tree, controllers) if version == 2 else tree.group
        _sweep(parent)
        part = DelegatedGroups(version, dict.fromkeys(controllers, str(parent)))
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
    """Make a group with limits and put a process into it. Raises OSError if that fails."""
    group = ControlGroup(**part.group("trial"))
    # The command ends when its standard input closes.
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


def _opened(tree: Hierarchy, controllers: tuple[str, ...]) -> Path:
    """Return a group of version 2 that gives its subgroups these controllers.

    Raises NotDelegatedError and OSError.
    """
    parent = tree.group.parent if tree.group.name == LEAF else tree.group
    if os.geteuid() == 0 and parent != tree.root and not _is_delegated(parent):
        # Root could make groups, but a group that is not delegated belongs to another manager, such as
        # systemd.
        raise NotDelegatedError(f"{parent} is not delegated")
    order = " ".join(f"+{name}" for name in controllers)
    control = parent / "cgroup.subtree_control"
    if set(controllers) <= set(read(str(control)).split()):
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
    """Move every process from one group to another. Skip processes that have ended."""
    for process in read(str(source / "cgroup.procs")).split():
        with suppress(ProcessLookupError):
            (target / "cgroup.procs").write_text(process)


def _own_name() -> str:
    """Return the prefix of this agent's group names: PID namespace, process id and start time."""
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    return f"pilotage-{namespace}-{os.getpid()}-{_start(os.getpid())}"


def _start(process: int) -> int:
    """Return the start time of a process in ticks since boot; 0 if it has ended."""
    numbers = read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return int(numbers[19]) if numbers else 0


def _sweep(parent: Path) -> None:
    """Remove the groups of ended agents.

    Groups from other PID namespaces stay: their agents cannot be checked.
    """
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    for folder in parent.glob("pilotage-*"):
        match = _NAME.fullmatch(folder.name)
        if not match or int(match[1]) != namespace or _start(int(match[2])) == int(match[3]):
            continue
        if fault := remove(str(folder)):
            log.warning("left by an agent that was killed: %s", fault)
