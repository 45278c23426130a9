"""Blame for a failed delivery: the file, its source, or its destination."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from pilotage.adapters.movers.processes.threads import Cancelled
from pilotage.adapters.movers.storages.backend_calls import reason
from pilotage.adapters.movers.transfer_services import TransferServiceError
from pilotage.model.records.observations import Fault
from pilotage.ports.moving import Readable, StorageError, WrongFileError

_OF_NAMES = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.ELOOP),
        *(errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY),
    }
)
"""Errors by which a file system refuses one particular path."""

_OF_FILES = (FileNotFoundError, PermissionError, NotADirectoryError)
"""Errors of a working storage about a file to read."""


class SourceBrokeError(StorageError):
    """A source broke off. The bytes written so far are correct."""


@contextmanager
def source_errors() -> Iterator[None]:
    """Tell failures of the source from failures of the destination."""
    try:
        yield
    except Exception as error:
        raise SourceBrokeError(reason(error)) from error


class SourceStream:
    """A stream of the source."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes. Raises SourceBrokeError."""
        with source_errors():
            return self._stream.read(size)


def blamed(error: BaseException) -> Fault:
    """Return who is to blame for the end of a copy; the destination if nothing points elsewhere."""
    causes = list(_causes(error))
    if any(isinstance(cause, Cancelled) for cause in causes):
        return ""
    for cause in causes:
        if isinstance(cause, TransferServiceError):
            return cause.fault
    of_source = any(isinstance(cause, SourceBrokeError) for cause in causes)
    for cause in causes:
        if isinstance(cause, WrongFileError):
            return cause.fault
        named = isinstance(cause, OSError) and cause.errno in _OF_NAMES
        if named or (of_source and isinstance(cause, _OF_FILES)):
            return "file"
    return "source" if of_source else "destination"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
