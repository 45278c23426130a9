"""The interface to one storage as streams: with it a kind of storage can be copied to and from any other."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeGuard, TypeVar, runtime_checkable

from pilotage.ports.moving import Grant, Readable, Space, WrongFileError

EntryKind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True, slots=True)
class PathEntry:
    """The kind of an entry, and for a file its bytes where the storage tells them."""

    kind: EntryKind
    size: int | None = None


class StorageOptionError(ValueError):
    """A backend does not take an option of its storage: which, and what it takes."""


class LinkError(WrongFileError):
    """A part of a path is a link, or something else that is no folder, which is never followed."""


T = TypeVar("T")
_offered: dict[tuple[type, object], bool] = {}


def offers(backend: object, ability: type[T]) -> TypeGuard[T]:
    """Tell whether a backend has what is in a protocol, once for each kind of them.

    Python looks through all names of both at each ``isinstance``, which small files feel.
    """
    key = (type(backend), ability)
    if (known := _offered.get(key)) is None:
        known = _offered[key] = isinstance(backend, ability)
    return known


class Backend(Protocol):
    """One storage, made with the URL and the options of the federation; a wrong one is a ValueError.

    Paths are relative to the storage's root, their parts are never empty, ``.`` or ``..``. No call follows a
    symbolic link below the root. Calls block, come from several threads, and raise FileNotFoundError for what
    is not there; any other exception is taken for a failure of the storage.
    """

    writable: bool

    def entry(self, path: str) -> PathEntry:
        """Look up a path."""

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """Names and entries of a folder, in any order; an empty path is the root.

        Raises FileNotFoundError, NotADirectoryError or LinkError where there is no folder.
        """

    def read(self, path: str) -> AbstractContextManager[Readable]:
        """Open a file to read it from its beginning. Raises StorageError for what is no plain file."""

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:
        """Write a file of ``size`` bytes, which appears under its path when all chunks are written.

        It replaces what was there. Where ``chunks`` raises nothing is left: they end with the check of what
        was read. A storage that needs a temporary name uses ``part``, a name in the same folder that nobody
        else uses. Missing folders are made.
        """

    def rename(self, source: str, target: str) -> None:
        """Move a file within the storage, replacing what is there. Missing folders are made."""

    def delete(self, path: str) -> None:
        """Delete a file, also where it is a link."""

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """Delete a folder, with all that is in it or only if it is empty; one that is not empty may raise."""


@runtime_checkable
class GrantingBackend(Backend, Protocol):
    """A backend whose storage can be given to others file by file."""

    def grant(self, path: str, size: int | None) -> Grant | None:
        """See :meth:`~pilotage.ports.moving.Reader.grant`. Folders above a file to be written are made."""


@runtime_checkable
class SpaceBackend(Backend, Protocol):
    """A backend whose storage can be asked for its free space."""

    def space(self) -> Space | None:
        """Ask for the free space; None where this server does not tell it (B18)."""
