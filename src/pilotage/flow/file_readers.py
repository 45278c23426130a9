"""Files that people read from storages through the server, a bounded number at once."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack

from pilotage.model.federation import Storage
from pilotage.ports.moving import Readable, StorageError

CHUNK = 1 << 20
"""Bytes that are read at once."""

MOST_READERS = 16
"""Files that are read at once: each takes a thread of the server while its reader takes bytes."""

Place = tuple[Storage, str]
"""A storage, and a path below its URL."""


class TooManyReaders(Exception):
    """Too many files are being read: the request may be sent again soon."""

    def __init__(self) -> None:
        super().__init__(f"{MOST_READERS} files are read already; try again in a few seconds")


class FileReaders:
    """Opens files for people, from the first of their places that can be read."""

    def __init__(self, opened: Callable[[Storage, str], AbstractContextManager[Readable]]) -> None:
        self._opened = opened
        self._free = threading.BoundedSemaphore(MOST_READERS)

    def read(self, places: Sequence[Place], offset: int) -> Iterator[bytes]:
        """Return the bytes of a file from an offset on, in chunks. Blocks while the file is opened.

        Raises TooManyReaders, and StorageError with every place's own where none can be read.
        """
        if not self._free.acquire(blocking=False):
            raise TooManyReaders
        with ExitStack() as stack:
            stack.callback(self._free.release)
            stream = self._first(places, offset, stack)
            chunks = _chunks(stream, stack.pop_all())
        # A generator that never began would not close the file when it is thrown away.
        next(chunks)
        return chunks

    def _first(self, places: Sequence[Place], offset: int, stack: ExitStack) -> Readable:
        errors = []
        for storage, path in places:
            with ExitStack() as attempt:
                try:
                    stream = attempt.enter_context(self._opened(storage, path))
                    _skip(stream, offset)
                except (StorageError, LookupError, OSError) as error:
                    errors.append(f"{storage.name}: {error}")
                    continue
                stack.push(attempt.pop_all())
                return stream
        raise StorageError("; ".join(errors) or "no storage of the federation holds it")


def _chunks(stream: Readable, stack: ExitStack) -> Iterator[bytes]:
    with stack:
        yield b""
        while chunk := stream.read(CHUNK):
            yield chunk


def _skip(stream: Readable, offset: int) -> None:
    """Read over the first bytes: not every storage can begin elsewhere. Raises StorageError."""
    left = offset
    while left:
        chunk = stream.read(min(left, CHUNK))
        if not chunk:
            raise StorageError(f"it has only {offset - left} bytes")
        left -= len(chunk)
