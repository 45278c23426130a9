"""Parts of a task's specification: its merge jobs, and places for its outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.values.types import CLOSED, FileName, Megabytes, Name, OutputPath, OutputPattern, Seconds

MOST_DESTINATIONS = 1000
"""Most outputs with a place of their own."""

MOST_MOUNTS = 50
"""Most folders that a task mounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """The job that merges many outputs into one. It reads every output of the task's other jobs."""

    __pydantic_config__ = CLOSED

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    """The program and its arguments."""
    outputs: Annotated[tuple[OutputPattern, ...], Field(min_length=1)]
    """Files that it leaves in its directory, in the form of the task's outputs."""
    ram: Megabytes | None = None
    """MB that it needs; none: like the other jobs."""
    walltime: Seconds | None = None
    """s that it needs; none: like the other jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDestination:
    """A place for outputs that a task chooses itself."""

    __pydantic_config__ = CLOSED

    storage: Name
    """The storage."""
    path: FileName
    """The file's path below the storage's URL; for a pattern or folder, that of a folder for its files."""
    prefix: OutputPath | Literal[""] = ""
    """For a pattern or folder: the folder of the job's directory that paths there do without. Empty: none."""


OutputDestinations = Annotated[Mapping[OutputPattern, OutputDestination], Field(max_length=MOST_DESTINATIONS)]
"""Places by output."""
