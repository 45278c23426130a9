"""A job's directory: payload files, copies of the inputs, a clean environment, and its removal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..node import DEVICES_OF_PAYLOADS
from ..wire import JobInput
from . import payload_secrets
from .attempt import RESERVED, Attempt, AttemptFailedError, legal
from .node_disk import on_this_node
from .trees import remove_tree

_DIRECTORY = "job directory"
_STDIN = "tmp/.stdin"
"""The path in the directory of a text for standard input."""


def prepare(attempt: Attempt, directory: Path, payload_files: Mapping[str, str]) -> None:
    """Make the directory with everything that the payload needs, except its inputs.

    These come later, at ``input_path``; ``inputs.txt`` lists them, one path a line. Raises
    AttemptFailedError.
    """
    with on_this_node(_DIRECTORY, always=True):
        remove(directory)
        (directory / "tmp").mkdir(parents=True)
    for folder in attempt.work.mounts.values():
        if legal("mount", folder, deep=True).split("/")[0] in RESERVED:
            raise AttemptFailedError(f"mount {folder}: the name is taken; take none of {sorted(RESERVED)}")
    with on_this_node(_DIRECTORY):
        for folder in attempt.work.mounts.values():
            (directory / folder).mkdir(parents=True, exist_ok=True)
        for name, text in payload_files.items():
            _write(directory, name, text)
        if attempt.work.stdin:
            (directory / _STDIN).write_text(attempt.work.stdin, encoding="utf-8")
        paths = map(input_path, attempt.order.inputs)
        (directory / "inputs.txt").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")


def input_path(file: JobInput) -> str:
    """Return the path of an input in the directory, by its logical name. Raises AttemptFailedError."""
    return f"inputs/{legal('input', file.name, deep=True)}"


def _write(directory: Path, name: str, text: str) -> None:
    if legal("payload file", name) in RESERVED:
        raise AttemptFailedError(f"payload file {name}: the name is taken; take none of {sorted(RESERVED)}")
    path = directory / name
    path.write_text(text, encoding="utf-8")
    # Texts arrive without permissions. A first line with ``#!`` marks a script, which must be executable.
    if text.startswith("#!"):
        path.chmod(0o755)


def stdin(attempt: Attempt) -> str:
    """Return the path in the directory of the payload's standard input; empty if there is none.

    Raises AttemptFailedError.
    """
    if attempt.order.stdin:
        return legal("standard input", attempt.order.stdin, deep=True)
    return _STDIN if attempt.work.stdin else ""


def environment(attempt: Attempt, directory: Path, gpus: Sequence[str]) -> dict[str, str]:
    """Return the payload's whole environment. It holds the agent's search path and the payload's own GPUs."""
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return {
        # Payloads get the Python that runs the agent: the node may have none in its search path.
        "PATH": f"{Path(sys.executable).parent}:{path}",
        "HOME": str(directory),
        "TMPDIR": str(directory / "tmp"),
        "LANG": "C.UTF-8",
        **attempt.order.environment,
        **attempt.work.environment,
        **payload_secrets.variables(attempt.work.secrets, directory),
        "PILOTAGE_JOB": str(attempt.order.job),
        "PILOTAGE_ATTEMPT": attempt.name,
        "PILOTAGE_TASK": str(attempt.work.task),
        "PILOTAGE_CORES": str(attempt.cores),
        # After the task's own variables, which must not name other GPUs. An empty value hides them all.
        **dict.fromkeys(DEVICES_OF_PAYLOADS, ",".join(gpus)),
    }


def remove(directory: Path) -> None:
    """Delete a tree of any depth and permissions. A link is removed, not followed."""
    if os.path.lexists(directory):
        remove_tree(str(directory))
