"""Names of the files that Pilotage makes at storages, and its own names in a job's directory.

Several Pilotages may share a storage, so every name contains the instance's name, which is its federation's.
"""

import re

from .patterns import literal_beginning
from .types import FILE_NAME, LONGEST_FILE_NAME

SCRATCH = ".scratch"
"""The folder of attempts' outputs. No logical name has a part that begins with a dot."""

COPIES = ".copies"
"""The folder of copies that Pilotage makes. Patterns and listings find only originals."""

OUTPUTS = "tasks"
"""The folder of accepted outputs."""

INPUTS = frozenset({"inputs", "inputs.txt", "tmp"})
"""What an agent puts into a job's directory before the payload starts. Outputs have other names."""

RESERVED = INPUTS | {"stdout", "stderr"}
"""The same with the payload's output streams, which may be outputs. Payload files have other names."""

FILE_NAMES = (
    f"names are of letters, digits and _.:@+=~-, up to {LONGEST_FILE_NAME} in all, folders set apart by /, "
    "and no part begins with another character than a letter, a digit or _"
)
"""The rule of :func:`is_file_name` in words."""


def is_file_name(name: str) -> bool:
    """Return whether a file may have this name in the catalogue."""
    return len(name) <= LONGEST_FILE_NAME and re.fullmatch(FILE_NAME, name) is not None


def scratch_path(instance: str, job: int, attempt: int, name: str = "") -> str:
    """Return the path of an attempt's output before delivery, below its queue's storage; without a name,
    its folder."""
    return f"{SCRATCH}/{instance}/{job}.{attempt}/{name}".rstrip("/")


def copy_path(instance: str, file: str) -> str:
    """Return the path below a storage of Pilotage's copy of a file, by the file's identifier
    ``SCOPE:NAME``."""
    return f"{COPIES}/{instance}/{file.replace(':', '/', 1)}"


def is_copy(path: str) -> bool:
    """Return whether a path belongs to a copy that Pilotage made."""
    return path.startswith(f"{COPIES}/")


def is_scratch(path: str) -> bool:
    """Return whether a path lies below the folder of attempts' outputs."""
    return path.startswith(f"{SCRATCH}/")


def output_name(instance: str, task: int, job: int, name: str) -> str:
    """Return the logical name of a job's output."""
    return f"{OUTPUTS}/{instance}/{task}/{job}/{name}"


def path_in_job(output: str) -> str:
    """Return the path of an output in its job's directory, from its logical name or identifier."""
    return output.split("/", 4)[-1]


def is_output(file: str) -> bool:
    """Return whether a logical name belongs to a task's output, of this instance or another."""
    return file.startswith(f"{OUTPUTS}/")


def makers(instance: str, glob: str) -> int | None:
    """Return the one task of this instance whose outputs match a pattern; None if that is not one task."""
    fixed = literal_beginning(glob)
    return maker(instance, fixed) if fixed.count("/") > 2 else None


def maker(instance: str, file: str) -> int | None:
    """Return the task of this instance whose output has this logical name; None if there can be none."""
    folder, _, rest = file.partition("/")
    name, _, rest = rest.partition("/")
    number = rest.partition("/")[0]
    # That many digits fit 64 bits. A longer number belongs to no task of any store.
    if (folder, name) != (OUTPUTS, instance) or not number.isdecimal() or len(number) > 18:
        return None
    return int(number)
