"""The node of a pilot: the resources of its slot, the limits of the slot, and the pilot's share of them.

Affinity, cgroups and the batch system's variables limit a slot. A machine that is smaller than the order does
not: an operator may order more payloads than cores.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .machine import MEGABYTE
from .payload.delegated_groups import DelegatedGroups, hierarchies
from .payload.node_disk import free_disk
from .wire import Node

CORES = ("SLURM_CPUS_ON_NODE", "NSLOTS", "NCPUS", "LSB_DJOB_NUMPROC", "PBS_NUM_PPN")
"""Variables in which batch systems give the slot's cores on this node."""
GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
"""Variables in which drivers and batch systems give the slot's GPUs."""
DEVICES_OF_PAYLOADS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Variables with a payload's GPUs, for its libraries."""
PATIENCE = 20.0
"""Seconds that a program may take to list devices."""
_PROCESS = Path("/proc/self")
_NOWHERE = {"IPv4": (socket.AF_INET, "192.0.2.1"), "IPv6": (socket.AF_INET6, "2001:db8::1")}
"""Addresses reserved for documentation: a route to them is a route to the world. Nothing is sent."""


@dataclass(frozen=True)
class Resources:
    """A pilot's share of its machine: ``slots`` payloads at a time, ``cores`` and ``memory`` for all of them.

    Memory is in MB (0: no limit), ``walltime`` in s. It makes the jobs' directories in ``directory``;
    ``keep`` leaves them there. It takes jobs only while ``least_disk`` MB are free there. Payloads cannot see
    the folders in ``hidden``, nor GPUs other than their own. ``delegation`` makes a control group for each
    payload. Results that the server does not get go into ``spool``, up to ``spool_room`` MB, for
    ``spool_days``; None: nowhere.
    """

    cores: int = 1
    memory: float = 0
    walltime: float = 86_400
    slots: int = 1
    directory: Path = Path()
    keep: bool = False
    least_disk: float = 100
    hidden: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    node: Node = field(default_factory=Node)
    delegation: DelegatedGroups = field(default_factory=DelegatedGroups)
    spool: Path | None = None
    spool_room: float = 0
    spool_days: float = 14


def look(directory: Path, environment: Mapping[str, str]) -> Node:
    """Return the node's resources. Unlimited or unknown values are 0 or empty."""
    return Node(
        cores=_smallest(_cores(environment)),
        memory=_smallest(_memory(environment)),
        disk=round(free_disk(directory), 1),
        gpus=_gpus(environment),
        walltime=_walltime(environment),
        routes=tuple(name for name, address in _NOWHERE.items() if _has_route(*address)),
        machine_cores=os.cpu_count() or 0,
        machine_memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEGABYTE,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
    )


def _smallest(limits: Iterator[float]) -> int:
    return int(min(limits, default=0))


def _cores(environment: Mapping[str, str]) -> Iterator[float]:
    allowed = len(os.sched_getaffinity(0))
    if allowed < (os.cpu_count() or 0):
        yield allowed
    for name in CORES:
        if environment.get(name, "").isdecimal():
            yield int(environment[name])
    # A quota below one core still gives a slot of one core.
    for group in _own_groups("cpu"):
        quota, period = _words(group / "cpu.max") or ["max", "1"]
        if quota.isdecimal():
            yield max(1.0, int(quota) / int(period))
        old = _words(group / "cpu.cfs_quota_us")
        if old and old[0].isdecimal():
            yield max(1.0, int(old[0]) / int(_words(group / "cpu.cfs_period_us")[0]))


def _memory(environment: Mapping[str, str]) -> Iterator[float]:
    """Yield limits in MB. Cgroups express "no limit" as a value above all memory."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for group in _own_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            words = _words(group / name)
            if words and words[0].isdecimal() and int(words[0]) < physical:
                yield int(words[0]) / MEGABYTE
    if environment.get("SLURM_MEM_PER_NODE", "").isdecimal() and environment["SLURM_MEM_PER_NODE"] != "0":
        # Slurm's MB has 2^20 bytes, ours 10^6.
        yield int(environment["SLURM_MEM_PER_NODE"]) * 2**20 / MEGABYTE
    per_core, cores = environment.get("SLURM_MEM_PER_CPU", ""), environment.get("SLURM_CPUS_ON_NODE", "")
    if per_core.isdecimal() and cores.isdecimal() and int(per_core):
        yield int(per_core) * int(cores) * 2**20 / MEGABYTE


def _own_groups(controller: str) -> Iterator[Path]:
    """Yield the cgroups of this process, of version 2 or 1, and their parents."""
    for tree in hierarchies(_PROCESS):
        # In version 2 a group may lack a controller that limits one of its parents.
        if tree.version == 2 or controller in tree.controllers:
            yield from (
                group for group in (tree.group, *tree.group.parents) if tree.root in (group, *group.parents)
            )


def _words(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text().split()
    return []


def _gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    for name in GPUS:
        if name in environment:
            devices = (device.strip() for device in environment[name].split(","))
            return tuple(device for device in devices if device and device not in ("-1", "NoDevFiles"))
    if not shutil.which("nvidia-smi"):
        return ()
    command = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
    try:
        listing = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in listing.stdout.splitlines() if line.strip())


def _walltime(environment: Mapping[str, str]) -> float:
    """Return the seconds that the batch system leaves to this slot; 0 if unknown."""
    end = environment.get("SLURM_JOB_END_TIME", "")
    # Never return 0, which means "unknown": a slot past its end still has an end.
    return max(1.0, float(int(end) - time.time())) if end.isdecimal() else 0.0


def _has_route(family: int, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Connecting a UDP socket only looks up the route. It sends no packet.
            probe.connect((address, 9))
    except OSError:
        return False
    return True
