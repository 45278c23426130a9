"""Copies between any two storages: whole or not at all, size and checksum right."""

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import suppress

from pilotage.ports.moving import Delivered, Delivery, DeliveryFailed, Progress, Readable, StorageError

from .backend import Backend, PathEntry

CHUNK = 1 << 20
KINDS = {"folder": "folder", "link": "symbolic link", "other": "special file"}


def copy(source: Backend, target: Backend, delivery: Delivery, progress: Progress) -> Delivered:
    """Bring a file to its destination; one that is there and right counts as delivered.

    What a former attempt left half written is deleted, also under the hands of a mover that still writes it.
    Without a known checksum only the size is checked, and the adler32 of what was written is returned; a file
    that is there already cannot be known to be right then, and is replaced. Within one storage a file of the
    scratch area is renamed and not written again. Raises DeliveryFailed, and whatever the storages raise.
    """
    path, expected = delivery.destination.path, Delivered(size=delivery.size, checksum=delivery.checksum)
    if _is_there(target, path, expected, progress):
        return expected
    if delivery.scratch and source is target:
        return _renamed(target, delivery, expected, progress)
    # Only now: a delivery that is there already, or is renamed, left no part anywhere.
    for part in delivery.former_parts:
        _delete(target, part)
    with source.read(delivery.source.path) as stream:
        checked = _Checked(stream, str(delivery.source), expected, progress)
        target.store(path, delivery.part, checked, expected.size)
    return checked.found


def clear(source: Backend, delivery: Delivery) -> None:
    """Delete a delivered file from its scratch area, and its folder with the last of them."""
    if not delivery.scratch:
        return
    _delete(source, delivery.source.path)
    folder = delivery.source.path.rpartition("/")[0]
    # An empty folder is in nobody's way: a storage that cannot list or delete it keeps it.
    with suppress(OSError, StorageError):
        if next(iter(source.entries(folder)), None) is None:
            source.delete_folder(folder, recursive=False)


def adler32(stream: Readable, most: int) -> tuple[int, str]:
    """Bytes and checksum of a stream that has up to ``most`` bytes; of a longer one, no checksum."""
    checksum, size = Checksum(""), 0
    while chunk := stream.read(CHUNK):
        checksum.add(chunk)
        size += len(chunk)
        if size > most:
            return size, ""
    return size, str(checksum)


class Checksum:
    """A checksum under way, of the same kind as a given one; adler32 where none is given."""

    def __init__(self, like: str) -> None:
        self._name = like.partition(":")[0]
        known = self._name in ("md5", "sha256")
        self._digest = hashlib.new(self._name, usedforsecurity=False) if known else None
        self._adler32 = 1

    def add(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        if self._digest:
            self._digest.update(chunk)
        else:
            self._adler32 = zlib.adler32(chunk, self._adler32)

    def __str__(self) -> str:
        return f"{self._name}:{self._digest.hexdigest()}" if self._digest else f"adler32:{self._adler32:08x}"


class _Checked:
    """The bytes of a file in chunks, which end with DeliveryFailed unless size and checksum are right.

    Never more bytes are given than there must be. ``found`` is what was read, once that is all.
    """

    def __init__(self, stream: Readable, where: str, expected: Delivered, progress: Progress) -> None:
        self._stream, self._where, self._expected, self._progress = stream, where, expected, progress
        self.found = Delivered(size=0, checksum="")

    def __iter__(self) -> Iterator[bytes]:
        checksum, size, expected = Checksum(self._expected.checksum), 0, self._expected
        while chunk := self._stream.read(CHUNK):
            size += len(chunk)
            if size > expected.size:
                break
            checksum.add(chunk)
            self._progress(size)
            yield chunk
        if size != expected.size:
            more = "at least " if size > expected.size else ""
            raise DeliveryFailed(f"{self._where} has {more}{size} bytes, must have {expected.size}")
        if expected.checksum not in ("", str(checksum)):
            raise DeliveryFailed(f"{self._where} has checksum {checksum}, must have {expected.checksum}")
        self._progress(size)
        self.found = Delivered(size=size, checksum=str(checksum))

    def all(self) -> Delivered:
        """Read to the end."""
        for _ in self:
            pass
        return self.found


def _is_there(target: Backend, path: str, expected: Delivered, progress: Progress) -> bool:
    """Tell if the destination is right already. Raises where something other than a file is in the way."""
    try:
        entry = target.entry(path)
    except FileNotFoundError:
        return False
    if entry.kind != "file":
        raise DeliveryFailed(f"{path} is in the way: a {KINDS[entry.kind]}, not a file")
    if not expected.checksum or entry.size != expected.size:
        return False
    try:
        with target.read(path) as stream:
            _Checked(stream, path, expected, progress).all()
    except DeliveryFailed:
        return False
    return True


def _renamed(storage: Backend, delivery: Delivery, expected: Delivered, progress: Progress) -> Delivered:
    with storage.read(delivery.source.path) as stream:
        found = _Checked(stream, str(delivery.source), expected, progress).all()
    path = delivery.destination.path
    storage.rename(delivery.source.path, path)
    # What was checked was read before it was renamed: a payload that still lives may have exchanged it.
    if storage.entry(path) != PathEntry("file", found.size):
        _delete(storage, path)
        raise DeliveryFailed(f"{delivery.source} was exchanged while it was delivered")
    return found


def _delete(storage: Backend, path: str) -> None:
    with suppress(FileNotFoundError):
        storage.delete(path)
