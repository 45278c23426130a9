"""Blame for a delivery that failed: its file, the storage that it came from, or the other one."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from pilotage.model.records.observations import Fault
from pilotage.ports.moving import Readable, StorageError, WrongFileError

from .carriers import CarrierError
from .storage_failures import reason
from .threads import Cancelled

_OF_NAMES = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.ELOOP),
        *(errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY),
    }
)
"""Errors by which a file system refuses a path and no other."""

_OF_FILES = (FileNotFoundError, PermissionError, NotADirectoryError)
"""Answers of a storage that is well, about a file that is to be read."""


class SourceBrokeError(StorageError):
    """A source gave no more bytes; what was written of them is good."""


@contextmanager
def source_errors() -> Iterator[None]:
    """Tell failures of the source from those of the destination."""
    try:
        yield
    except Exception as error:
        raise SourceBrokeError(reason(error)) from error


class SourceStream:
    """A stream of the source."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """Read up to so many bytes. Raises SourceBrokeError."""
        with source_errors():
            return self._stream.read(size)


def blamed(error: BaseException) -> Fault:
    """Return who is to blame for what ended a copy; the destination where nothing speaks for another."""
    causes = list(_causes(error))
    if any(isinstance(one, Cancelled) for one in causes):
        return ""
    for one in causes:
        if isinstance(one, CarrierError):
            return one.fault
    of_source = any(isinstance(one, SourceBrokeError) for one in causes)
    for one in causes:
        if isinstance(one, WrongFileError):
            return one.fault
        named = isinstance(one, OSError) and one.errno in _OF_NAMES
        if named or (of_source and isinstance(one, _OF_FILES)):
            return "file"
    return "source" if of_source else "destination"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
