"""Files that move from one storage to another, and how far each of them is."""

from dataclasses import dataclass
from typing import Literal

MoveStep = Literal["moved", "requested", "moving", "in use", "failed", "missing"]
"""How far a file is: ``moved``, the new storage has it and the old one is forgotten; ``requested`` now;
``moving`` since an earlier request; ``in use`` by a live job; ``failed``, its transfer did; ``missing`` at
the new storage, although it should be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAtStorage:
    """A file that moves from a storage to another one."""

    file: str
    """Identifier of the file, ``SCOPE:NAME``."""
    path: str
    """Path at the old storage; empty: its name."""
    size: int
    """Bytes."""
    checksum: str
    """Its checksum; empty if unknown."""
    other_storages: tuple[str, ...] = ()
    """The other storages that have it."""
    is_read: bool = False
    """Whether a live job reads it."""
    is_being_made: bool = False
    """Whether the job that made it has not ended."""
    is_moving: bool = False
    """Whether a live transfer brings it to the new storage."""
    error: str = ""
    """The error of its last transfer to the new storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedFile:
    """What became of one file. ``lost`` if no other storage has it, and so the old one must not go."""

    file: str
    size: int
    step: MoveStep
    error: str = ""
    lost: bool = False
