"""The interface to one storage as streams. It lets any kind of storage be copied to and from any other."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeGuard, TypeVar, runtime_checkable

from pilotage.ports.moving import PER_VO, Grant, Readable, Space, WrongFileError

EntryKind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True, slots=True)
class PathEntry:
    """The kind of an entry, and for a file its bytes if the storage reports them."""

    kind: EntryKind
    size: int | None = None


class StorageOptionError(ValueError):
    """A backend refuses an option of its storage; the message names the option and the accepted values."""


def option_sets(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the options of a storage or a service, and these with the options of each VO.

    Raises StorageOptionError.
    """
    per_vo = options.get(PER_VO, {})
    if not isinstance(per_vo, Mapping) or not all(isinstance(more, Mapping) for more in per_vo.values()):
        raise StorageOptionError(f"{PER_VO}: must be options by the names of VOs")
    shared = {name: value for name, value in options.items() if name != PER_VO}
    return [{**shared, **more} for more in ({}, *per_vo.values())]


class LinkError(WrongFileError):
    """A part of a path is a link, or something else that is no folder. It is never followed."""


T = TypeVar("T")
_offered: dict[tuple[type, object], bool] = {}


def offers(backend: object, ability: type[T]) -> TypeGuard[T]:
    """Return whether a backend implements a protocol. The answer is cached per kind of backend.

    Python's ``isinstance`` compares all names of both each time, which slows down small files.
    """
    key = (type(backend), ability)
    if (answer := _offered.get(key)) is None:
        answer = _offered[key] = isinstance(backend, ability)
    return answer


class Backend(Protocol):
    """One storage, made with the federation's URL and options. It raises ValueError for wrong ones.

    Paths are relative to the storage's root, their parts are never empty, ``.`` or ``..``. No call follows a
    symbolic link below the root. Calls block, and come from several threads. They raise FileNotFoundError for
    missing files; any other exception counts as a failure of the storage.
    """

    writable: bool

    def entry(self, path: str) -> PathEntry:
        """Look up a path."""

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """Yield names and entries of a folder in any order. An empty path is the root.

        Raises FileNotFoundError, NotADirectoryError or LinkError if there is no folder.
        """

    def read(self, path: str) -> AbstractContextManager[Readable]:
        """Open a file to read it from its beginning. Raises StorageError for anything except a plain file."""

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:
        """Write a file of ``size`` bytes. It appears under its path when all chunks are written.

        It replaces an existing file. If ``chunks`` raises, nothing stays: they end with a check of the bytes
        read. A storage that needs a temporary name uses ``part``, an unused name in the same folder. Missing
        folders are made.
        """

    def rename(self, source: str, target: str) -> None:
        """Move a file within the storage, replacing an existing one. Missing folders are made."""

    def delete(self, path: str) -> None:
        """Delete a file or a link."""

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """Delete a folder: with all its content, or only if it is empty. A non-empty one may raise."""


@runtime_checkable
class GrantingBackend(Backend, Protocol):
    """A backend that can give others access to single files."""

    def grant(self, path: str, size: int | None) -> Grant | None:
        """See ``Reader.grant``. It makes the folders above a file to write."""


@runtime_checkable
class RootedBackend(Backend, Protocol):
    """A storage below a folder that may be away, like a disk that is not mounted."""

    def check_root(self) -> None:
        """Raise StorageError if that folder is not there. Its files may still exist, on a disk that is not
        mounted."""


@runtime_checkable
class LinkingBackend(Backend, Protocol):
    """A backend that may have symbolic links in its folders."""

    def resolved(self, path: str) -> str:
        """Return the path that a link leads to, without links on its way; it may be missing.

        Raises LinkError if it leads out of the storage.
        """


@runtime_checkable
class SpaceBackend(Backend, Protocol):
    """A backend that reports its storage's free space."""

    def space(self) -> Space | None:
        """Return the free space; None if this server does not report it (B18)."""
