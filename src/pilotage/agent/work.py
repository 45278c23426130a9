"""What a pilot agent offers, and what the server hands it: checked where it arrives."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=~-]*")
RESERVED = frozenset({"inputs", "inputs.txt", "tmp", "stdout", "stderr"})


class AttemptFailedError(Exception):
    """The attempt failed; the message is what its owner reads."""


class InputLostError(AttemptFailedError):
    """An input is missing at the queue's storage, or is not what it should be."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"input {name}: {fault}")
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a pilot has: ``slots`` payloads side by side, ``cores`` and ``memory`` (MB, 0 for no limit) for
    all of them together, and ``walltime`` s. ``keep`` leaves job directories where they are."""

    cores: int = 1
    memory: float = 0
    walltime: float = 86_400
    slots: int = 1
    directory: Path = Path()
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A file to bring: bytes and checksum, empty where unknown."""

    name: str
    size: int
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the jobs of one task have in common; memory and workdir in MB, walltime in s, 0 for no limit.

    ``memory`` is what a job is expected to take of its pilot's, ``memory_limit`` where it is ended.
    """

    task: int
    command: tuple[str, ...]
    kind: str = "normal"
    environment: Mapping[str, str] = field(default_factory=dict)
    payload_files: bool = False
    cores: int = 1
    memory: float = 0
    memory_limit: float = 0
    walltime: float = 0
    workdir: float = 0
    outputs: tuple[str, ...] = ()
    storage_url: str = ""
    storage_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of one job; ``scratch`` is the folder for its outputs, below the storage's URL."""

    work: Work
    job: int
    attempt: int
    scratch: str
    inputs: tuple[Input, ...] = ()

    @property
    def cores(self) -> int:
        """Cores that it takes of its pilot's."""
        return max(1, self.work.cores)

    @property
    def pair(self) -> tuple[int, int]:
        """What the server knows it by."""
        return self.job, self.attempt

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.job}.{self.attempt}"


def attempts(works: list[dict[str, Any]]) -> Iterator[Attempt]:
    """Every attempt in a match's answer. Raises KeyError or TypeError where the answer is not one."""
    for document in works:
        known = {name: document[name] for name in Work.__slots__ if name in document}
        known["command"] = tuple(document["command"])
        known["outputs"] = tuple(document.get("outputs", ()))
        work = Work(**known)
        for job in document["jobs"]:
            inputs = tuple(
                Input(name=file["name"], size=int(file["size"]), checksum=file.get("checksum", ""))
                for file in job.get("inputs", ())
            )
            yield Attempt(
                work=work,
                job=int(job["job"]),
                attempt=int(job["attempt"]),
                scratch="." + legal("scratch", job["scratch"].removeprefix("."), deep=True),
                inputs=inputs,
            )


def legal(what: str, name: str, *, deep: bool = False) -> str:
    """The name, where it stays in the directory that it is put in, or below it where that is ``deep``.

    Raises AttemptFailedError.
    """
    parts = name.split("/") if deep else [name]
    if all(_PART.fullmatch(part) for part in parts):
        return name
    raise AttemptFailedError(f"{what} {name!r}: not a legal file name: letters, digits and ._:@+=~-")
