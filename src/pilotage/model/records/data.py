"""Files, their replicas, and the transfers (DTR) that make them."""

from dataclasses import dataclass
from typing import Literal

from pilotage.model.values.scopes import name_of
from pilotage.model.values.slot_parts import SizeClass
from pilotage.model.values.types import DESCRIBED

from .states import TransferState

Direction = Literal["download", "upload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file by its logical name."""

    __pydantic_config__ = DESCRIBED

    name: str
    """Its identifier, ``SCOPE:NAME``."""
    size: int
    """Bytes."""
    checksum: str
    """``adler32:``, ``md5:`` or ``sha256:`` and the digits; empty where unknown."""
    task: int | None = None
    """The task that made it; none for an input from outside."""
    job: int | None = None
    """The job that made it; none for an input from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedFile:
    """Another description of a file that is known, since its bytes or an operator say so.

    It counts only while the file is known as it was when that was found, and is no job's output. What was
    known of its replicas is forgotten with the former description.
    """

    __pydantic_config__ = DESCRIBED

    name: str
    """Its identifier, ``SCOPE:NAME``."""
    size: int
    """Bytes."""
    checksum: str
    """As of a file."""
    former_size: int
    """Bytes that were known."""
    former_checksum: str
    """The checksum that was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A file at a storage: its original, under the file's name, or a copy that Pilotage made (``path``)."""

    __pydantic_config__ = DESCRIBED

    file: str
    """Identifier of the file, ``SCOPE:NAME``."""
    storage: str
    """Where it is."""
    path: str = ""
    """Path below the storage's URL; empty: the file's name, for an original."""

    @property
    def place(self) -> str:
        """Path below the storage's URL."""
        return self.path or name_of(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDatasetVersion:
    """The next version of a dataset, as what differs from the one before."""

    __pydantic_config__ = DESCRIBED

    dataset: str
    """Identifier of the dataset, ``SCOPE:NAME``."""
    version: int
    """Its number, from 1. Where the last version is not the one before, this one is not created."""
    author: str
    """Who made it."""
    added: tuple[File, ...]
    """Files that are in it and were not before, or were otherwise."""
    removed: tuple[str, ...]
    """Identifiers of files that were in the one before and are not in it, or are otherwise."""
    files: int
    """Files in it."""
    size: int
    """Bytes of them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy that Pilotage made, with all that decides whether it may go."""

    __pydantic_config__ = DESCRIBED

    file: str
    """Identifier of the file, ``SCOPE:NAME``."""
    storage: str
    """Where it is."""
    path: str
    """Path below the storage's URL."""
    size: int
    """Bytes."""
    used: float
    """When a job that reads it there last changed its state, or else when it came, in s since 1970."""
    wanted: bool
    """Whether a task or live job reads the file, or a transfer moves it."""
    elsewhere: tuple[str, ...]
    """The other storages that hold the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesSize:
    """Bytes of all copies of one scope's files at a storage."""

    __pydantic_config__ = DESCRIBED

    storage: str
    """The storage."""
    scope: str
    """The scope of the files."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTransfer:
    """A transfer about to be. There is never more than one live transfer of a file to a storage."""

    __pydantic_config__ = DESCRIBED

    file: str
    """Identifier of the file, ``SCOPE:NAME``."""
    source: str
    """The storage that it is read from."""
    destination: str
    """The storage that it is written to."""
    direction: Direction
    """Download to a job, or upload from one."""
    share: str
    """Its transfer share (D1, D6)."""
    priority: int
    """Its DTR priority, 1 to 100 (D2)."""
    source_path: str = ""
    """Path at the source, where it is not the file's name: what an attempt left in its scratch area."""
    share_priority: int = 0
    """Base priority of its share, by which the best share of several that ask for it is known (D2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A transfer (DTR) as it stands."""

    __pydantic_config__ = DESCRIBED

    id: int
    """Its number."""
    file: str
    """Identifier of the file, ``SCOPE:NAME``."""
    source: str
    """The storage that it is read from."""
    destination: str
    """The storage that it is written to."""
    direction: Direction
    """Download to a job, or upload from one."""
    share: str
    """Its transfer share (D1, D6)."""
    priority: int
    """Its DTR priority, 1 to 100 (D2)."""
    state: TransferState
    """Where it is in its life."""
    attempt: int
    """The attempt under way, from 1."""
    created: float
    """When it was asked for, in s since 1970."""
    since: float
    """When it came into its state, in s since 1970."""
    source_path: str = ""
    """Path at the source, where it is not the file's name: what an attempt left in its scratch area."""
    emergency: bool = False
    """Whether it has an emergency slot (D5)."""
    wake_at: float | None = None
    """When it may be tried again, in s since 1970."""
    heartbeat: float | None = None
    """When its bytes last moved, in s since 1970."""
    error: str = ""
    """Why its last attempt failed."""
    server: str = ""
    """The process that delivers it, or did last."""
    size_class: SizeClass = ""
    """``small`` where it shares its slots with other small files (D8)."""
    way: str = ""
    """How the file came, in words: streamed or by the storages themselves, why, and by which mover."""
