"""One attempt of one job as the agent sees it, and the errors that make it fail."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..wire import JobOrder, Pair, StorageFault, Work

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
VARIABLES = ".container-environment"
"""The file with the environment of a payload in a container, in the job's directory."""
SECRETS = ".payload-secrets"
"""The folder with the files of a payload's secrets, in the job's directory."""
RESERVED = frozenset({"inputs", "inputs.txt", "tmp", "stdout", "stderr", VARIABLES, SECRETS})
"""Names in a job's directory that payload files may not take."""


class AttemptFailedError(Exception):
    """The attempt failed; the message is for the job's owner."""

    exit_code: int | None = None
    """Its exit code, if it is not the payload's; None: it has none."""
    kind = "start"
    """Its kind as in ``Report``, if its payload has not begun."""


class ImageFailedError(AttemptFailedError):
    """No program of this node can run the image of a container.

    The attempt ends with the exit code of Podman for that, so that alike failures stop the task.
    """

    exit_code = 125
    kind = "container"


class NodeFailedError(AttemptFailedError):
    """The node failed the attempt: its disk is full, broken, or cannot be written."""

    kind = "disk"


class InputLostError(AttemptFailedError):
    """An input is missing at the queue's storage, or its content differs from the catalogue."""

    kind = "input"

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"input {name}: {fault}")
        self.name = name


class StorageFailedError(AttemptFailedError):
    """A storage failed to give or take a file, and the file is not the cause."""

    kind = "storage"

    def __init__(self, message: str, fault: StorageFault) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True)
class Attempt:
    """A job order, together with the work that it shares with similar jobs."""

    work: Work
    order: JobOrder

    @property
    def cores(self) -> int:
        """Cores of the pilot that the attempt uses."""
        return max(1, self.work.cores)

    @property
    def pair(self) -> Pair:
        """The server's key for it."""
        return self.order.job, self.order.attempt

    @property
    def name(self) -> str:
        """The attempt's name in logs, and the name of its directory."""
        return f"{self.order.job}.{self.order.attempt}"


def legal(kind: str, name: str, *, deep: bool = False) -> str:
    """Return the name if it stays inside its directory. With ``deep`` it may also name a file in a subfolder.

    Raises AttemptFailedError with the reason.
    """
    if any(part in ("", ".", "..") for part in name.split("/")) or ("/" in name and not deep):
        fault = "no part of it may be empty, . or .."
    elif _CONTROL.search(name):
        fault = "it has a control character"
    elif not is_text(name):
        fault = "it is no text in UTF-8"
    else:
        return name
    raise AttemptFailedError(f"{kind} {name!r}: not a legal file name: {fault}")


def is_text(name: str) -> bool:
    """Return whether a name is text: bytes that are no UTF-8 become lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def legal_scratch(attempt: Attempt) -> str:
    """Return the attempt's scratch folder. Raises AttemptFailedError."""
    return legal("scratch", attempt.order.scratch, deep=True)
