"""Files, their replicas, and the transfers (DTR) that make them."""

from dataclasses import dataclass
from typing import Literal

from pilotage.model.records.life import LifeInAttempts
from pilotage.model.records.observations import Fault
from pilotage.model.records.states import TransferState
from pilotage.model.values.scopes import name_of
from pilotage.model.values.slot_parts import SizeClass
from pilotage.model.values.types import DESCRIBED, Bytes, RecordId, Settable

Direction = Literal["download", "upload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file by its logical name."""

    __pydantic_config__ = DESCRIBED

    name: str
    """Its identifier, ``SCOPE:NAME``."""
    size: Bytes
    """Bytes."""
    checksum: str
    """``adler32:``, ``md5:`` or ``sha256:`` and the digits; empty if unknown."""
    task: RecordId | None = None
    """The task that made it; none for an input from outside."""
    job: RecordId | None = None
    """The job that made it; none for an input from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedFile:
    """A new description of a known file, taken from its bytes, from an operator or from its author.

    It applies only while the catalogue still has the old size and checksum, and not to outputs of jobs. It
    removes the known replicas.
    """

    __pydantic_config__ = DESCRIBED

    name: str
    """Its identifier, ``SCOPE:NAME``."""
    size: int
    """Bytes."""
    checksum: str
    """Checksum as in a file."""
    former_size: int
    """The known size in bytes."""
    former_checksum: str
    """The known checksum."""
    author: str = ""
    """The author who describes it so; empty: its bytes do, or an operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A file at a storage: its original under the file's name, or a copy that Pilotage made (``path``)."""

    __pydantic_config__ = DESCRIBED

    file: str
    """Identifier of the file, ``SCOPE:NAME``."""
    storage: str
    """Where it is."""
    path: str = ""
    """Path below the storage's URL; empty: the file's name, for an original."""

    @property
    def place(self) -> str:
        """Return the path below the storage's URL."""
        return self.path or name_of(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDatasetVersion:
    """The next version of a dataset, as differences from the one before."""

    __pydantic_config__ = DESCRIBED

    dataset: str
    """Identifier of the dataset, ``SCOPE:NAME``."""
    version: int
    """Its number, from 1. If the last version is not the one before, it is not created."""
    author: str
    """Who made it."""
    added: tuple[File, ...]
    """Files in it that are new or changed."""
    removed: tuple[str, ...]
    """Identifiers of files in the version before that it lacks, or that changed."""
    files: int
    """Number of files in it."""
    size: int
    """Total bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy that Pilotage made, with everything that decides whether it may go."""

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
    """When a job that reads it there last changed its state, or else when the copy arrived, in s since
    1970."""
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
    """A transfer to create. There is never more than one live transfer of a file to a storage."""

    __pydantic_config__ = DESCRIBED

    file: str
    """Identifier of the file, ``SCOPE:NAME``."""
    source: Settable[str]
    """The storage to read from."""
    destination: str
    """The storage to write to."""
    direction: Direction
    """Download to a job, or upload from one."""
    share: str
    """Its transfer share (D1, D6)."""
    priority: Settable[int]
    """Its DTR priority, 1 to 100 (D2)."""
    source_path: Settable[str] = ""
    """Path at the source if it is not the file's name: an attempt's output in its scratch area."""
    destination_path: str = ""
    """Path at the destination if the output's task chose it; empty: the file's name, or that of copies."""
    share_priority: int = 0
    """Base priority of its share. It decides if several shares request the file (D2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(NewTransfer, LifeInAttempts):
    """A transfer in its current state."""

    __pydantic_config__ = DESCRIBED

    state: TransferState
    """Its state."""
    emergency: Settable[bool] = False
    """Whether it has an emergency slot (D5)."""
    wake_at: Settable[float | None] = None
    """When it may be retried, in s since 1970."""
    heartbeat: Settable[float | None] = None
    """When its bytes last moved, in s since 1970."""
    fault: Settable[Fault] = ""
    """Who is to blame for its last failure."""
    server: Settable[str] = ""
    """The process that delivers it, or the last that did."""
    size_class: SizeClass = ""
    """``small`` if it shares its slot with other small files (D8)."""
    way: Settable[str] = ""
    """How the file came, in words: streamed or copied by the storages themselves, why, and by which mover."""
