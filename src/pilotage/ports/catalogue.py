"""The port to catalogues: files and datasets are looked up by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pilotage.model.records.catalogues import ReplicationRule
from pilotage.model.records.work import InputFile

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """An output as it is to be registered: ``paths`` are those below its storages' URLs, by storage."""

    name: str
    size: int
    checksum: str
    paths: Mapping[str, str]


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


class PublishingPort(CataloguePort, Protocol):
    """A catalogue that takes outputs, too."""

    def check_output(self, scope: str, dataset: str, storages: Sequence[str]) -> None:
        """Look whether outputs at any of these storages could be registered in a dataset now.

        Changes nothing. Raises LookupError with what is in the way, and CatalogueError.
        """

    def publish(
        self,
        scope: str,
        dataset: str,
        files: Sequence[OutputFile],
        rule: ReplicationRule | None,
        closed: bool = False,
    ) -> Mapping[str, str]:
        """Register files of a scope with their replicas, as members of a dataset, which is made if missing.

        With a rule, one is set unless there is one like it; ``closed`` closes the dataset afterwards. Returns
        by name why single files were refused: one that is known with another size or checksum never becomes a
        member, and is left as it is. Raises LookupError where the dataset takes no files, and would not take
        them later either, and CatalogueError; then it may have been done in part.
        """
