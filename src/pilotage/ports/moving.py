"""The port through which bytes move: orders, what comes of them, and what a mover can do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pilotage.model.federation import Storage
from pilotage.model.work import File, InputFile, Transfer

Progress = Callable[[int], None]


class StorageError(Exception):
    """A storage could not be read or written: where, and what was wrong."""


class DeliveryFailed(StorageError):
    """The file is not at its destination: where, and what was wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A path below the URL of a storage; ``options`` are the storage's own, for its kind of filesystem."""

    url: str
    path: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.url.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The order to bring one file to its destination, for one attempt of a transfer.

    ``size`` in bytes; ``checksum`` is ``adler32:...``, ``sha256:...`` or empty where none is known.
    ``scratch`` says that the source is a job's scratch area, from where the file is taken away.
    """

    transfer: int
    attempt: int
    file: str
    size: int
    checksum: str
    source: Place
    destination: Place
    scratch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What now lies at the destination: bytes and checksum."""

    size: int
    checksum: str


class Mover(Protocol):
    """Moves bytes. All of it may be called from several threads, and called again after a crash."""

    def deliver(self, delivery: Delivery, progress: Progress) -> Delivered:
        """Brings the file to its destination, whole or not at all, size and checksum right.

        ``progress`` is called with the bytes read so far while anything is read, and a last time before the
        file is put in its place; what it raises gives the delivery up. Raises :class:`DeliveryFailed`.
        """

    def cleanup(self, delivery: Delivery) -> None:
        """After the delivery, takes away what is left in the scratch area. Raises :class:`StorageError`."""

    def scan(self, storage: Storage, glob: str) -> list[InputFile]:
        """All plain files that match below the storage, by name, with sizes and checksums.

        Raises :class:`StorageError`.
        """

    def remove(self, storage: Storage, prefix: str) -> None:
        """Deletes a folder of the scratch area, such as a dead attempt's. Raises :class:`StorageError`."""


def order(transfer: Transfer, file: File, storages: Mapping[str, Storage]) -> Delivery:
    """The delivery of a transfer, given its file and the storages by name.

    Raises :class:`DeliveryFailed` where a storage is not there any more or a path leaves it.
    """
    for name in (transfer.source, transfer.destination):
        if name not in storages:
            raise DeliveryFailed(f"storage {name} is not in the federation any more")
    source, destination = storages[transfer.source], storages[transfer.destination]
    return Delivery(
        transfer=transfer.id,
        attempt=transfer.attempt,
        file=file.name,
        size=file.size,
        checksum=file.checksum,
        source=_place(source, transfer.source_path or file.name),
        destination=_place(destination, file.name),
        scratch=bool(transfer.source_path),
    )


def _place(storage: Storage, path: str) -> Place:
    if not is_below(path):
        raise DeliveryFailed(f"{path!r} is not a path below storage {storage.name}")
    return Place(url=storage.url, path=path, options=storage.options)


def is_below(path: str) -> bool:
    """Whether a path stays below what it is relative to."""
    return not any(part in ("", ".", "..") for part in path.split("/"))
