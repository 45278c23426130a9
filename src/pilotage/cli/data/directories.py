"""List a directory's files on a storage for registration: find them below its root and read their
checksums."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import Any

from pilotage.adapters.movers.copies.checksums import CHUNK, Checksum
from pilotage.cli.errors import BadInput
from pilotage.model.values.paths import FILE_NAMES, OUTPUTS, is_file_name, is_own, is_part

WORKERS = 4
"""Files read at the same time. More would not speed up a disk."""

OUT, SPECIAL = "a symbolic link that leads out of its storage, or to nothing", "special files"


@dataclass(frozen=True, slots=True)
class LyingFile:
    """A file by its name at a storage, its size in bytes, and its local path."""

    name: str
    size: int
    path: Path


@dataclass(slots=True)
class DirectoryListing:
    """Files below a directory of a storage, and why other paths were left out, or passed over.

    ``links`` are patterns of what links lead to within the storage, for the server to list.
    """

    storage: str
    files: list[LyingFile] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    passed_over: dict[str, str] = field(default_factory=dict)
    """Paths that are no plain files, with their kinds."""
    links: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self.files)

    def read(self, files: Sequence[LyingFile], advanced: Callable[[int], object]) -> list[dict[str, Any]]:
        """Describe files with their checksums; leave out files that cannot be read or that change.

        ``advanced`` is called with the number of bytes read.
        """

        def described(file: LyingFile) -> dict[str, Any] | None:
            try:
                return _described(file, self.storage, _checksum(file, advanced))
            except OSError as error:
                self.left_out[str(file.path)] = error.strerror or str(error)
                return None

        with ThreadPoolExecutor(WORKERS) as workers:
            return [description for description in workers.map(described, files) if description]

    def unread(self, files: Iterable[LyingFile]) -> list[dict[str, Any]]:
        """Describe files without their checksums."""
        return [_described(file, self.storage, "") for file in files]

    def batches(self, size: int) -> Iterator[list[LyingFile]]:
        """Yield the files in batches of at most ``size``."""
        remaining = iter(self.files)
        while batch := list(islice(remaining, size)):
            yield batch


def listed(directory: Path, storage: str, storages: Sequence[Any]) -> DirectoryListing:
    """List the files below a directory by name, without outputs of tasks.

    Special files go to ``passed_over``.
    ``storages`` are the federation's. Without ``storage``, use the one with the nearest root. Raises BadInput
    if the directory is not on the storage, or on none.
    """
    place = directory.resolve()
    roots = {
        record["name"]: Path(record["url"].removeprefix("file://")).resolve()
        for record in storages
        if record["url"].startswith("file://") and storage in ("", record["name"])
    }
    holding = {name: root for name, root in roots.items() if place.is_relative_to(root)}
    if not holding:
        root_list = (
            ", ".join(f"{name} at {root}" for name, root in roots.items()) or "none that is a directory"
        )
        raise BadInput(f"{place} is on no storage: {storage or 'the federation'} has {root_list}")
    name = max(holding, key=lambda name: len(holding[name].parts))
    listing = DirectoryListing(name)
    root = holding[name]
    for path, size in _walk(place, listing):
        file = LyingFile(path.relative_to(root).as_posix(), size, path)
        if file.name.startswith(f"{OUTPUTS}/") or is_own(file.name) or is_part(file.name):
            continue
        if not is_file_name(file.name):
            listing.left_out[file.name] = FILE_NAMES
        elif not path.is_symlink():
            listing.files.append(file)
        elif path.exists() and path.resolve().is_relative_to(root):
            listing.links.append(glob.escape(file.name) + "/**" * path.is_dir())
        else:
            listing.left_out[file.name] = OUT
    listing.files.sort(key=lambda file: file.name)
    return listing


def _walk(place: Path, listing: DirectoryListing) -> Iterator[tuple[Path, int]]:
    """Yield plain files and links, and their sizes. Note paths that cannot be read, and special files."""

    def note(error: OSError) -> None:
        listing.left_out[str(error.filename)] = error.strerror or str(error)

    for folder, folders, names in os.walk(place, onerror=note):
        for name in (*names, *(subfolder for subfolder in folders if Path(folder, subfolder).is_symlink())):
            path = Path(folder, name)
            try:
                status = path.lstat()
            except OSError as error:
                note(error)
                continue
            if S_ISREG(status.st_mode) or S_ISLNK(status.st_mode):
                yield path, status.st_size
            else:
                listing.passed_over[path.relative_to(place).as_posix()] = SPECIAL


def _described(file: LyingFile, storage: str, checksum: str) -> dict[str, Any]:
    return {"name": file.name, "size": file.size, "checksum": checksum, "replicas": [storage]}


def _checksum(file: LyingFile, advanced: Callable[[int], object]) -> str:
    checksum, size = Checksum(""), 0
    with file.path.open("rb") as stream:
        before = os.fstat(stream.fileno()).st_mtime_ns
        while chunk := stream.read(CHUNK):
            checksum.add(chunk)
            size += len(chunk)
            advanced(len(chunk))
        if size != file.size or os.fstat(stream.fileno()).st_mtime_ns != before:
            raise OSError(None, "it changes while it is read")
    return str(checksum)
