"""The port to catalogues: files and datasets are looked up by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pilotage.model.work import InputFile

MOST_FOUND = 100_000
"""Files of a catalogue that one pattern or one dataset of a task may stand for."""


class CatalogueError(Exception):
    """A catalogue does not answer, or refuses: which one, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file as a catalogue knows it; ``paths`` are by storage, where it does not lie under its name."""

    file: InputFile
    paths: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDataset:
    """The files of one version of a dataset; None is the version where a catalogue numbers none."""

    version: int | None
    files: Sequence[FoundFile]


class CataloguePort(Protocol):
    """A catalogue. Every call may block, and may be repeated after a crash: what is so already stays so.

    Scopes are the catalogue's own. ``tests/catalogues/contract.py`` tests these promises.
    """

    def matching(self, scope: str, glob: str) -> Sequence[FoundFile]:
        """Find the files of a scope by a pattern, by name; copies that Pilotage made are none of them.

        Raises LookupError for more than :data:`MOST_FOUND`, and CatalogueError.
        """

    def dataset(self, scope: str, name: str, version: int | None = None) -> FoundDataset:
        """Find the files of a dataset, in the version that is current unless told.

        The same version is the same files always: raises LookupError where there is none, or where it is not
        whole any more, and CatalogueError.
        """
