"""Match patterns of paths folder by folder within limits, in the same way on every kind of storage."""

import time
from collections.abc import Iterator
from fnmatch import fnmatchcase

from pydantic import ValidationError

from pilotage.model.documents.serialization import from_document
from pilotage.model.records.federation import Storage
from pilotage.model.records.work import InputFile
from pilotage.model.values.paths import FILE_NAMES, OUTPUTS
from pilotage.ports.moving import ScanLimits, ScannedFiles, StorageError, WrongPatternError, is_below

from .backend import Backend, LinkError, PathEntry
from .checksums import adler32

LINK = "it is a symbolic link, or lies behind one, which is never followed; put what it leads to in its place"
SPECIAL = "it is a special file, not a plain one"


def scan(backend: Backend, storage: Storage, glob: str, limits: ScanLimits) -> ScannedFiles:
    """List all plain files that match, by name; ``**`` stands for any folders. Raises StorageError, also
    as WrongPatternError.

    Links that match, what lies behind them, and special files are left out and told. Names with a part that
    begins with a dot are not found, such as copies that Pilotage made. Outputs of tasks are found only by
    patterns that begin with their folder: what ``**`` finds is the same before and after other tasks ran. The
    adler32 is read of files up to the limit's size, while there is time.
    """
    if not is_below(glob):
        raise WrongPatternError(f"{glob!r} is not a pattern below storage {storage.name}")
    deadline = _Deadline(limits.seconds)
    found: dict[str, PathEntry] = {}
    left_out: dict[str, str] = {}
    for path, entry in _matches(backend, glob, limits, deadline):
        if entry.kind == "file":
            found[path] = entry
        else:
            left_out[path] = LINK if entry.kind == "link" else SPECIAL
        if len(found) + len(left_out) > limits.files:
            raise WrongPatternError(f"more than {limits.files} files match: narrow the pattern")
    files = (_input_file(backend, storage, path, found[path], limits, deadline) for path in sorted(found))
    return ScannedFiles(files, left_out)


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


def _matches(
    backend: Backend, pattern: str, limits: ScanLimits, deadline: _Deadline
) -> Iterator[tuple[str, PathEntry]]:
    """Files, links and special files that match, some twice where ``**`` stands more than once.

    No listing is open while another is: a deep tree must not use up the process's file descriptors.
    """
    todo: list[tuple[str, tuple[str, ...]]] = [("", tuple(pattern.split("/")))]
    # With many ``**``, several ways lead to the same folder with the same rest to match.
    seen: set[tuple[str, int]] = set()
    while todo:
        deadline.check()
        folder, (head, *rest) = todo.pop()
        if (folder, len(rest)) in seen:
            continue
        seen.add((folder, len(rest)))
        # Two stars also match no folder.
        if head == "**" and rest:
            todo.append((folder, tuple(rest)))
        for name, entry in _found(backend, folder, head, limits, last=not rest):
            deadline.check()
            path = f"{folder}/{name}".lstrip("/")
            if name.startswith(".") or (path == OUTPUTS and head != OUTPUTS):
                continue
            if entry.kind == "folder" and head == "**":
                todo.append((path, (head, *rest)))
            elif fnmatchcase(name, head):
                if entry.kind == "folder" and rest:
                    todo.append((path, tuple(rest)))
                elif entry.kind != "folder" and (entry.kind == "link" or not rest):
                    yield path, entry


def _met(path: str) -> WrongPatternError:
    remedy = "narrow the pattern, or put what it leads to in its place"
    return WrongPatternError(f"{path} is a link, or lies behind one, which is never followed: {remedy}")


def _found(
    backend: Backend, folder: str, part: str, limits: ScanLimits, *, last: bool
) -> Iterator[tuple[str, PathEntry]]:
    """List like :func:`_entries`. Raises WrongPatternError at a matching link, if links are refused."""
    try:
        for name, entry in _entries(backend, folder, part, last=last):
            matches = not name.startswith(".") and fnmatchcase(name, part)
            if entry.kind == "link" and limits.refuse_links and matches:
                raise _met(f"{folder}/{name}".lstrip("/"))
            yield name, entry
    except LinkError as error:
        if limits.refuse_links:
            raise _met(folder or part) from error
        # What lies behind a link that the pattern names: told by the name of what cannot be entered.
        yield part, PathEntry("link")


def _entries(backend: Backend, folder: str, part: str, *, last: bool) -> Iterator[tuple[str, PathEntry]]:
    """Yield entries that one part of a pattern may match.

    Without wildcards, list no folder, because it may be large.
    """
    try:
        if any(character in part for character in "*?["):
            yield from backend.entries(folder)
        elif last:
            yield part, backend.entry(f"{folder}/{part}".lstrip("/"))
        else:
            yield part, PathEntry("folder")
    except (FileNotFoundError, NotADirectoryError):
        return


def _input_file(
    backend: Backend, storage: Storage, path: str, entry: PathEntry, limits: ScanLimits, deadline: _Deadline
) -> InputFile:
    size, checksum = entry.size, ""
    if size is None:
        size = backend.entry(path).size
    if size is None or (size <= limits.checksum_size and not deadline.over):
        with backend.read(path) as stream:
            size, checksum = adler32(stream, limits.checksum_size)
        if not checksum:
            raise StorageError(f"{path!r} at {storage.name}: its size is unknown or changes")
    document = {"name": path, "size": size, "checksum": checksum, "replicas": [storage.name]}
    try:
        return from_document(InputFile, document)
    except ValidationError as error:
        if limits.any_name:
            return InputFile(name=path, size=size, checksum=checksum, replicas=(storage.name,))
        raise WrongPatternError(
            f"{path!r} at {storage.name} cannot be an input: {FILE_NAMES}; rename it, or narrow the pattern"
        ) from error
