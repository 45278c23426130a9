"""The files of a job, for people: where they lie, and how they came there."""

from dataclasses import dataclass
from typing import Literal

from pilotage.model.records.work import Transfer
from pilotage.model.values.types import DESCRIBED

FileKind = Literal["input", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOfJob:
    """An input or output of a job."""

    __pydantic_config__ = DESCRIBED

    file: str
    """Its identifier, ``SCOPE:NAME``."""
    kind: FileKind
    """Its role for the job."""
    size: int
    """Bytes."""
    storages: tuple[str, ...]
    """Storages that hold it, by name."""
    transfer: Transfer | None = None
    """The last transfer of it to the storage of the job's queue, or of an output from there; none: there
    was none."""
    took: float | None = None
    """Duration of its delivery in s; none: it has not ended."""
    way: str = ""
    """How the job, or its destination, gets it, in words."""
