"""Faults of the folders that a task mounts at absolute paths."""

from collections.abc import Iterator
from itertools import permutations

from pilotage.federation.faults import Fault
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.paths import RESERVED

KERNEL_FOLDERS = frozenset({"proc", "sys", "dev"})
"""Folders at the root in which nothing can be mounted."""

SYSTEM_FOLDERS = frozenset(
    f"/{folder}"
    for folder in (
        *(
            "usr",
            "bin",
            "sbin",
            "lib",
            "lib32",
            "lib64",
            "libx32",
            "etc",
            "opt",
            "nix",
            "gnu",
            "run",
            "cvmfs",
        ),
        *("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "usr/share", "usr/local", "usr/local/bin"),
    )
)
"""Folders that no mount may hide as a whole."""

_ELSEWHERE = "give a folder that neither the system nor an image needs, such as /data"


def mount_faults(spec: TaskSpec) -> Iterator[Fault]:
    """Yield the faults of a task's mounts in any federation."""
    for target, folder in spec.mounts.items():
        path, head = ("mounts", target), folder.split("/")[0]
        if not spec.command:
            yield Fault(path, "is for an empty payload", "give a command that uses it")
        elif fault := hidden_by(target):
            yield Fault(path, fault, _ELSEWHERE)
        elif head in RESERVED or head in spec.payload_files:
            yield Fault(path, f"{head!r} is there already in the directory of a payload", "give another name")
    for target, outer in permutations(sorted(spec.mounts), 2):
        if target.startswith(f"{outer}/"):
            yield Fault(("mounts", target), f"lies below {outer}, a mount too", "mount only the outer folder")


def hidden_by(target: str) -> str:
    """Return why nothing may be mounted at a path; empty if it may."""
    is_fixed = target in SYSTEM_FOLDERS or target.split("/")[1] in KERNEL_FOLDERS
    return "would hide what programs need" if is_fixed else ""
