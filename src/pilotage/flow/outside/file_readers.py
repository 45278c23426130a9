"""Files that people and pilots read through the server, a limited number at a time."""

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from pilotage.model.records.federation import Storage
from pilotage.model.values.identity import Identity
from pilotage.ports.moving import Readable, StorageError

CHUNK = 1 << 20
"""Bytes read at once."""

MOST_READERS, MOST_OF_PILOTS = 16, 8
"""Most files read at once by people, and most read or written by pilots. Each takes one of the server's 40
threads while its bytes move."""

MOST_OF_ONE = 4
"""Most files read at once by one person: three people who read slowly leave places to others."""

Place = tuple[Storage, str]
"""A storage, and a path below its URL."""


class TooManyReaders(Exception):
    """Too many files are being read. Try again soon."""

    def __init__(self, limit: int, owner: str = "") -> None:
        super().__init__(f"{limit} files {owner}are under way already; try again in a few seconds")


class FileReaders:
    """Opens files, at most ``limit`` at a time, from the first readable place."""

    def __init__(
        self, opened: Callable[[Storage, str], AbstractContextManager[Readable]], limit: int = MOST_READERS
    ) -> None:
        self._opened, self._limit = opened, limit
        self._free = threading.BoundedSemaphore(limit)
        self._of: Counter[str] = Counter()
        self._counting = threading.Lock()

    @contextmanager
    def place(self, person: str = "") -> Iterator[None]:
        """Take one reader's place until the end of the context. Raises TooManyReaders."""
        with self._counted(person):
            if not self._free.acquire(blocking=False):
                raise TooManyReaders(self._limit)
            try:
                yield
            finally:
                self._free.release()

    @contextmanager
    def _counted(self, person: str) -> Iterator[None]:
        with self._counting:
            if person and self._of[person] >= MOST_OF_ONE:
                raise TooManyReaders(MOST_OF_ONE, "of yours ")
            self._of[person] += 1
        try:
            yield
        finally:
            with self._counting:
                self._of[person] -= 1
                if not self._of[person]:
                    del self._of[person]

    def read(self, places: Sequence[Place], offset: int, person: str = "") -> Generator[bytes]:
        """Return the bytes of a file from an offset on, in chunks. Blocks while the file is opened.

        Raises TooManyReaders, and StorageError with every place's error if none can be read.
        """
        with ExitStack() as stack:
            stack.enter_context(self.place(person))
            stream = self._first(places, offset, stack)
            chunks = _chunks(stream, stack.pop_all())
        # An unstarted generator would not close the file when it is dropped.
        next(chunks)
        return chunks

    def read_each(
        self, files: Iterable[tuple[Sequence[Place], int]], person: str = ""
    ) -> Generator[bytes | None]:
        """Yield the bytes of each file of these places and size; None if it has another or cannot be read.

        All together take one reader's place. Raises TooManyReaders before the first file.
        """
        with ExitStack() as stack:
            stack.enter_context(self.place(person))
            contents = self._each(files, stack.pop_all())
        # An unstarted generator would not give the place back when it is dropped.
        next(contents)
        return contents

    def _each(
        self, files: Iterable[tuple[Sequence[Place], int]], stack: ExitStack
    ) -> Generator[bytes | None]:
        with stack:
            yield None
            for places, size in files:
                try:
                    with ExitStack() as opened:
                        content = _at_most(self._first(places, 0, opened), size + 1)
                except (StorageError, OSError):
                    yield None
                else:
                    yield content if len(content) == size else None

    def _first(self, places: Sequence[Place], offset: int, stack: ExitStack) -> Readable:
        errors, cause = [], None
        for storage, path in places:
            with ExitStack() as attempt:
                try:
                    stream = attempt.enter_context(self._opened(storage, path))
                    _skip(stream, offset)
                except (StorageError, LookupError, OSError) as error:
                    errors.append(f"{storage.name}: {error}")
                    cause = error.__cause__
                    continue
                stack.push(attempt.pop_all())
                return stream
        raise StorageError("; ".join(errors) or "no storage of the federation holds it") from cause


def _chunks(stream: Readable, stack: ExitStack) -> Generator[bytes]:
    with stack:
        yield b""
        while chunk := stream.read(CHUNK):
            yield chunk


def _at_most(stream: Readable, size: int) -> bytes:
    chunks = []
    while size > 0 and (chunk := stream.read(size)):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _skip(stream: Readable, offset: int) -> None:
    """Skip the first bytes: not every storage can start elsewhere. Raises StorageError."""
    rest = offset
    while rest:
        chunk = stream.read(min(rest, CHUNK))
        if not chunk:
            raise StorageError(f"it has only {offset - rest} bytes")
        rest -= len(chunk)


class LookUps:
    """Places of people who list a storage. A storage has few, so one person must not take them all."""

    def __init__(self) -> None:
        self._freed = threading.Condition()
        self._taken: set[tuple[str, str, str]] = set()

    @contextmanager
    def place(self, storage: str, person: Identity, seconds: float) -> Iterator[None]:
        """Wait for a person's place at a storage, and take it until the end of the context.

        Raises TimeoutError if it is not free within some seconds.
        """
        key = (storage, person.vo, person.name)
        with self._freed:
            if not self._freed.wait_for(lambda: key not in self._taken, seconds):
                raise TimeoutError(f"another look-up of yours at {storage} has not ended")
            self._taken.add(key)
        try:
            yield
        finally:
            with self._freed:
                self._taken.discard(key)
                self._freed.notify_all()
