"""Which outputs are fetched, and where each goes. The user may not trust the server."""

import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

from pilotage.model.values.paths import is_file_name, path_in_job

from .destination import Destination, OpenFolder
from .errors import BadAnswer, FetchFailed, NotFound
from .subjects import TASK_NAME

CHUNK = 1 << 20
"""Bytes of one read."""

MOST_SHOWN = 200
"""Characters of a wrong value that are shown."""

MOST_JOBS = 1 << 63
"""Numbers of jobs are below this."""

MOST_TOLD = 10
"""Most failed files that a message lists; of others only the number."""


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file of the catalogue, and its target here."""

    file: str
    size: int
    checksum: str
    place: Destination

    @classmethod
    def of(cls, view: Any, place: Destination) -> "FetchedFile":
        """Return the file of a server's description. Raises BadAnswer if it is no description."""
        file, size, checksum = (view.get(name) for name in ("file", "size", "checksum"))
        if not (isinstance(file, str) and isinstance(checksum, str) and type(size) is int and size >= 0):
            raise BadAnswer(f"the server describes the file {file!r} without name, size or checksum")
        return cls(file, size, checksum, place)

    @property
    def name(self) -> str:
        """The file's name in its folder."""
        return self.place.path.name

    @property
    def part(self) -> str:
        """The file's name until it is complete."""
        return f".{self.name}.part"


class Digest:
    """A running checksum of the same kind as a given one: adler32, md5 or sha256."""

    def __init__(self, like: str) -> None:
        self._name = like.partition(":")[0] or "adler32"
        if self._name not in ("adler32", "md5", "sha256"):
            raise FetchFailed(f"the checksum {like!r} has a kind that is unknown here")
        # adler32 of no bytes is 1.
        self._value = 1
        self._hash = None if self._name == "adler32" else hashlib.new(self._name, usedforsecurity=False)

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        if self._hash:
            self._hash.update(chunk)
        else:
            self._value = zlib.adler32(chunk, self._value)

    def add_all(self, file: BinaryIO) -> int:
        """Add all that is left of a file. Return the number of its bytes."""
        size = 0
        while chunk := file.read(CHUNK):
            self.add(chunk)
            size += len(chunk)
        return size

    def __str__(self) -> str:
        return f"{self._name}:{self._hash.hexdigest() if self._hash else f'{self._value:08x}'}"


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a fetch brought: ``files`` with their paths here, ``failed`` ones with the reason by file.

    ``lost`` are outputs that never arrived at a storage. ``manifest`` is the path of the manifest; if none
    was written it is empty, and ``no_manifest`` has the reason.
    """

    files: Sequence[FetchedFile]
    failed: Mapping[str, str]
    lost: Sequence[str]
    manifest: str
    no_manifest: str
    folder: Path = Path()
    """Where they are."""
    no_crate: str = ""
    """What kept ``ro-crate-metadata.json`` from being written; empty: nothing, or the task has not ended."""

    def check(self) -> None:
        """Raise ``FetchFailed`` that names the files that failed, if any did."""
        if self.failed:
            more = len(self.failed) - MOST_TOLD
            rest = [f"and {more} more files"] if more > 0 else []
            raise FetchFailed("; ".join([*list(self.failed.values())[:MOST_TOLD], *rest]))


def folder_name(task: str, number: int) -> str:
    """Return the name of a folder for a task's outputs. A server may lie, and its names may be paths."""
    return task if TASK_NAME.fullmatch(task) else f"task-{number}"


def is_right(output: FetchedFile, folder: OpenFolder) -> bool:
    """Return whether the file is here already, with its size and checksum."""
    # Open it even if it cannot be compared: refuse a link in its place before reading anything.
    file = folder.open(output.name, os.O_RDONLY)
    if file is None:
        return False
    with file:
        if os.fstat(file.fileno()).st_size != output.size or not output.checksum:
            return False
        digest = Digest(output.checksum)
        digest.add_all(file)
        return str(digest) == output.checksum


def stored_outputs(
    task: int, outputs: Sequence[Any], merged: bool, match: str
) -> tuple[list[Any], list[str]]:
    """Return the wanted outputs that lie somewhere, and the names of outputs that never arrived.

    Raises ``NotFound`` if there is none.
    """
    kinds = [file for file in outputs if not merged or file.get("kind") == "merge"]
    matching = [file for file in kinds if match == _path(file) or fnmatchcase(_path(file), match)]
    if not matching:
        kind = "merged outputs" if merged else "outputs"
        reason = f" that match {match!r}" if kinds else f"; how far it is: pilotage status {task}"
        raise NotFound(f"task {task} has no {kind}{reason}")
    here = [file for file in matching if file.get("replicas")]
    if not here:
        count = f"{len(matching)} output{'' if len(matching) == 1 else 's'}"
        raise NotFound(f"none of the {count} of task {task} is at a storage")
    return here, [str(file["name"]) for file in matching if not file.get("replicas")]


def with_places(outputs: Sequence[Any], to: Path) -> list[tuple[FetchedFile, Any]]:
    """Return outputs with their places here. Raises ``FetchFailed`` where two have the same."""
    places: dict[str, Any] = {}
    for file in outputs:
        first = places.setdefault(_place(file), file)
        if first is not file:
            both = f"{first.get('file')} and {file.get('file')}"
            raise FetchFailed(f"{both} would both be {_place(file)}; choose one with --merged or --match")
    return [(FetchedFile.of(file, Destination(to, place)), file) for place, file in places.items()]


def hidden_files(files: Sequence[FetchedFile]) -> dict[str, str]:
    """Return why hidden files, and files in hidden folders, are refused.

    Shells, editors and git obey such files in any folder, and the user may not trust the server.
    """
    return {
        file.file: f"{file.place.path} is hidden, and programs obey hidden files; --hidden fetches it"
        for file in files
        if any(part.startswith(".") for part in file.place.name.split("/"))
    }


def _place(file: Any) -> str:
    """Return the target path of an output. Several jobs may use the same name."""
    if file.get("kind") == "merge":
        return _path(file)
    job = file.get("job")
    if type(job) is not int or not 0 < job < MOST_JOBS:
        name, number = repr(file.get("name"))[:MOST_SHOWN], repr(job)[:MOST_SHOWN]
        raise BadAnswer(
            f"the output {name} belongs to job {number} in the answer, which is no number of a job"
        )
    return f"{job}/{_path(file)}"


def _path(file: Any) -> str:
    """Return the path of an output in its job's directory."""
    # The user may not trust the server: accept only names that outputs can have.
    name = file.get("name")
    if not (isinstance(name, str) and is_file_name(name)):
        raise BadAnswer(f"the output {repr(name)[:MOST_SHOWN]} has no name that a file can have here")
    return path_in_job(name)
