"""Match patterns of paths folder by folder within limits, in the same way on every kind of storage."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from pilotage.adapters.movers.copies.checksums import adler32
from pilotage.adapters.movers.storages.backend import (
    Backend,
    LinkingBackend,
    PathEntry,
    RootedBackend,
    offers,
)
from pilotage.adapters.movers.storages.links import FoundPath, follow
from pilotage.model.documents.serialization import from_document
from pilotage.model.records.federation import Storage
from pilotage.model.records.work import InputFile
from pilotage.model.values.paths import FILE_NAMES, OUTPUTS, is_file_name, is_own, is_part
from pilotage.model.values.patterns import WILDCARDS, is_met
from pilotage.ports.moving import ScanLimits, ScannedFiles, StorageError, WrongPatternError, is_below


def scan(backend: Backend, storage: Storage, glob: str, limits: ScanLimits) -> ScannedFiles:
    """List all plain files that match, by name; ``**`` matches any folders. Raises StorageError, also
    as WrongPatternError.

    Links to files and folders of the storage are followed: such a file has the link's name, and ``paths`` has
    its own. Other links and special files are in ``left_out``. Pilotage's own folders and unfinished files
    are not found, and outputs of tasks only by patterns that begin with their folder: what ``**`` finds is
    the same before and after other tasks ran. The adler32 is read of files up to the limit's size, while
    there is time.
    """
    if not is_below(glob):
        raise WrongPatternError(f"{glob!r} is not a pattern below storage {storage.name}")
    deadline = _Deadline(limits.seconds)
    files_by_path: dict[str, FoundPath] = {}
    left_out: dict[str, str] = {}
    if offers(backend, RootedBackend):
        backend.check_root()
    for match in _matches(backend, glob, deadline):
        if match.is_link and match.fault and limits.refuse_links:
            raise WrongPatternError(
                f"{match.path!r} cannot be an input: {match.fault}; or narrow the pattern"
            )
        if not (match.fault or is_file_name(match.path)):
            if not limits.any_name:
                fault = f"{match.path!r} at {storage.name} cannot be an input: {FILE_NAMES}"
                raise WrongPatternError(f"{fault}; rename it, or narrow the pattern")
            left_out[match.path] = FILE_NAMES
        elif match.fault:
            left_out[match.path] = match.fault
        else:
            files_by_path[match.path] = match
        if len(files_by_path) + len(left_out) > limits.files:
            raise WrongPatternError(f"more than {limits.files} files match: narrow the pattern")
    files = (
        _input_file(backend, storage, files_by_path[path], limits, deadline) for path in sorted(files_by_path)
    )
    paths = {path: match.real for path, match in files_by_path.items() if match.real != path}
    return ScannedFiles(files, left_out, paths)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to search: its path, its real path, and the folders with the links to it."""

    path: str = ""
    real: str = ""
    former: tuple[str, ...] = ()

    def below(self, name: str) -> str:
        """Return the path of an entry."""
        return f"{self.path}/{name}".lstrip("/")

    def really(self, name: str) -> str:
        """Return the real path of an entry."""
        return f"{self.real}/{name}".lstrip("/")


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        return time.monotonic() > self._end

    def check(self) -> None:
        """Raise StorageError if the time is up."""
        if self.over:
            raise StorageError(f"not listed within {self._seconds:g} s: narrow the pattern")


def _matches(backend: Backend, pattern: str, deadline: _Deadline) -> Iterator[FoundPath]:
    """Yield files, and links and special files that are left out, some twice if ``**`` occurs more than once.

    No listing is open while another is: a deep tree must not use up the process's file descriptors.
    """
    todo: list[tuple[_Folder, tuple[str, ...]]] = [(_Folder(), tuple(pattern.split("/")))]
    # With many ``**``, several ways lead to the same folder with the same rest to match.
    visited: set[tuple[str, int]] = set()
    while todo:
        folder, (head, *rest) = todo.pop()
        if (folder.path, len(rest)) in visited:
            continue
        visited.add((folder.path, len(rest)))
        # Two stars also match no folder.
        if head == "**" and rest:
            todo.append((folder, tuple(rest)))
        further = (head, *rest) if head == "**" else tuple(rest)
        for name, entry in _entries(backend, folder, head, last=not rest):
            deadline.check()
            if not is_met(head, name) or is_own(folder.really(name)) or is_part(name):
                continue
            if OUTPUTS in (folder.below(name), folder.really(name)) and head != OUTPUTS:
                continue
            match = FoundPath(folder.below(name), folder.really(name), entry)
            former = folder.former
            if entry.kind == "link":
                former = (*former, folder.real)
                match = follow(backend, match, former if WILDCARDS.search(head) else ())
            if match.is_folder:
                todo += [(_Folder(match.path, match.real, former), further)] if further else []
            elif not rest or match.entry.kind == "link":
                yield match


def _entries(backend: Backend, folder: _Folder, part: str, *, last: bool) -> Iterator[tuple[str, PathEntry]]:
    """Yield entries that one part of a pattern may match.

    Without wildcards, list no folder, because it may be large.
    """
    try:
        if WILDCARDS.search(part):
            yield from backend.entries(folder.real)
        elif last or offers(backend, LinkingBackend):
            yield part, backend.entry(folder.really(part))
        else:
            yield part, PathEntry("folder")
    except (FileNotFoundError, NotADirectoryError):
        return


def _input_file(
    backend: Backend, storage: Storage, match: FoundPath, limits: ScanLimits, deadline: _Deadline
) -> InputFile:
    size, checksum = match.entry.size, ""
    if size is None:
        size = backend.entry(match.real).size
    if size is None or (size <= limits.checksum_size and not deadline.over):
        with backend.read(match.real) as stream:
            size, checksum = adler32(stream, limits.checksum_size)
        if not checksum:
            raise StorageError(f"{match.path!r} at {storage.name}: its size is unknown or changes")
    document = {"name": match.path, "size": size, "checksum": checksum, "replicas": [storage.name]}
    try:
        return from_document(InputFile, document)
    except ValidationError as error:
        raise StorageError(f"{match.path!r} at {storage.name}: {error.errors()[0]['msg']}") from error
