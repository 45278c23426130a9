"""What a task reads: files, patterns of files, versions of datasets, and outputs of other tasks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from pilotage.model.values.parameter_bounds import MOST_ROWS
from pilotage.model.values.scopes import identifier
from pilotage.model.values.types import (
    CLOSED,
    Checksum,
    DatasetName,
    FileName,
    FileSize,
    Name,
    Scope,
    Whole,
)

if TYPE_CHECKING:
    from pilotage.model.records.data import File

TaskReference = Annotated[Whole, Field(ge=1, le=2**53)] | Name
"""Another task: by number, or by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that a task reads: bytes, checksum, and the storages that hold it under its name."""

    __pydantic_config__ = CLOSED

    name: FileName
    """Logical name, and path below each storage's URL."""
    size: FileSize
    """Bytes."""
    checksum: Checksum = ""
    """``adler32:``, ``md5:`` or ``sha256:`` and the digits; empty if unknown."""
    replicas: tuple[Name, ...] = ()
    """Storages that hold it; none: those that the catalogue knows."""
    scope: Scope = ""
    """The scope of the name: a VO's, or a person's own; empty: the VO's, or for outputs the person's own."""
    rows: Annotated[tuple[Annotated[Whole, Field(ge=0, lt=MOST_ROWS)], ...], Field(max_length=MOST_ROWS)] = ()
    """Rows of the task's parameters that read it, from 0; none: all. Patterns that name parameters set
    them."""

    @property
    def identifier(self) -> str:
        """Return ``SCOPE:NAME``, the identifier in the catalogue."""
        return identifier(self.scope, self.name)

    def described(self) -> "File":
        """Return it as the catalogue's record."""
        from pilotage.model.records.data import File

        return File(name=self.identifier, size=self.size, checksum=self.checksum)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPattern:
    """All files that match ``glob``: on the named storages, or in the catalogue if none is named.

    Storages are listed at submission, and sizes and checksums are read. The catalogue knows them already.
    """

    __pydantic_config__ = CLOSED

    storages: tuple[Name, ...] = ()
    """Storages to search; none: search the catalogue for files that were registered or named before."""
    glob: Annotated[str, Field(min_length=1, max_length=500)]
    """Pattern of paths below their URLs. It does not match copies that Pilotage made. In a task with
    parameters, ``{sample}`` stands for the row's value, so that each row reads its own files."""
    scope: Scope = ""
    """The scope of the names; empty: the VO's, or for outputs the person's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDataset:
    """All files of one version of a dataset in the catalogue."""

    __pydantic_config__ = CLOSED

    dataset: DatasetName
    """Name of the dataset."""
    version: Annotated[Whole, Field(ge=1, le=2**31 - 1)] | None = None
    """Its version; none: the current one at submission, which the task then keeps."""
    scope: Scope = ""
    """The scope of the dataset; empty: the VO's, or for datasets of outputs the person's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutputs:
    """Outputs of another task, which this one then comes after.

    They become files when that task has ended: the outputs of its finished jobs, or its merged ones.
    """

    __pydantic_config__ = CLOSED

    task: TaskReference
    """The other task: its name in the workflow, or the number or name of a task of yours."""
    match: Annotated[str, Field(min_length=1, max_length=500)] = "**"
    """Pattern of their paths in a job's directory, such as ``*.bam``."""


Input = InputFile | InputPattern | InputDataset | TaskOutputs
