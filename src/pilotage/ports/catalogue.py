"""The port to catalogues, which look up files and datasets by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pilotage.model.records.catalogues import ReplicationRule
from pilotage.model.records.work import InputFile

MOST_FOUND = 100_000
"""Most files of a catalogue for one pattern or one dataset of a task."""


class CatalogueError(Exception):
    """A catalogue does not answer, or refuses; the message names it and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file in a catalogue. ``paths`` are by storage, if it does not lie under its name."""

    file: InputFile
    paths: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDataset:
    """The files of one version of a dataset. The version is None if the catalogue has no numbers."""

    version: int | None
    files: Sequence[FoundFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """An output to register. ``paths`` are below its storages' URLs, by storage."""

    name: str
    size: int
    checksum: str
    paths: Mapping[str, str]


class CataloguePort(Protocol):
    """A catalogue. Every call may block, and may be repeated after a crash: repeating it changes nothing.

    Scopes belong to the catalogue. ``tests/catalogues/contract.py`` tests these promises.
    """

    def matching(self, scope: str, glob: str) -> Sequence[FoundFile]:
        """Return the files of a scope that match a pattern, by name, without copies that Pilotage made.

        Raises LookupError for more than ``MOST_FOUND``, and CatalogueError.
        """

    def dataset(self, scope: str, name: str, version: int | None = None) -> FoundDataset:
        """Return the files of a dataset in a version; by default the current one.

        A version always has the same files. Raises CatalogueError, and LookupError if the version does not
        exist or is incomplete.
        """


class PublishingPort(CataloguePort, Protocol):
    """A catalogue that also accepts outputs."""

    def check_output(self, scope: str, dataset: str, storages: Sequence[str]) -> None:
        """Check whether outputs at any of these storages could be registered in a dataset now.

        This changes nothing. Raises CatalogueError, and LookupError with the obstacle.
        """

    def publish(
        self,
        scope: str,
        dataset: str,
        files: Sequence[OutputFile],
        rule: ReplicationRule | None,
        closed: bool = False,
    ) -> Mapping[str, str]:
        """Register files of a scope, with their replicas, as members of a dataset. Make the dataset if it is
        missing.

        A ``rule`` is set unless an equal one exists. ``closed`` closes the dataset afterwards. Return refused
        files with their reasons, by name. A file known with another size or checksum never becomes a member,
        and stays as it is. Raises LookupError if the dataset accepts no files and will not later, and
        CatalogueError. Part of the work may be done then.
        """
