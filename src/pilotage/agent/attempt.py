"""One attempt of one job as the agent sees it, and the errors that make it fail."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .wire import JobOrder, Pair, StorageFault, Work

# No part begins with a dot or a dash, so a name is never "..", a hidden file or an option of a command.
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=~-]*")
RESERVED = frozenset({"inputs", "inputs.txt", "tmp", "stdout", "stderr"})
"""Names in a job's directory that payload files may not take."""


class AttemptFailedError(Exception):
    """The attempt failed; the message is for the job's owner."""


class InputLostError(AttemptFailedError):
    """An input is missing at the queue's storage, or its content differs from the catalogue."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"input {name}: {fault}")
        self.name = name


class StorageFailedError(AttemptFailedError):
    """A storage failed to give or take a file, and the file is not the cause."""

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


def legal(what: str, name: str, *, deep: bool = False) -> str:
    """Return the name if it stays inside its directory. With ``deep`` it may also name a file in a subfolder.

    Raises AttemptFailedError.
    """
    parts = name.split("/") if deep else [name]
    if all(_PART.fullmatch(part) for part in parts):
        return name
    raise AttemptFailedError(f"{what} {name!r}: not a legal file name: letters, digits and ._:@+=~-")


def legal_path(what: str, path: str) -> str:
    """Return a path below a storage's URL. Only its first part may begin with a dot.

    Raises AttemptFailedError.
    """
    legal(what, path[1:] if path.startswith(".") else path, deep=True)
    return path


def legal_scratch(attempt: Attempt) -> str:
    """Return the attempt's scratch folder. Raises AttemptFailedError."""
    return legal_path("scratch", attempt.order.scratch)
