"""Failures of storages: every library has its own exceptions; here all become the port's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pilotage.ports.moving import DeliveryFailed, StorageError


@contextmanager
def explained(failure: type[StorageError], where: str) -> Iterator[None]:
    """Turn every exception into ``failure``, or keep its kind if it is one, and add the place."""
    try:
        yield
    except Exception as error:
        kind = type(error) if isinstance(error, failure) else failure
        raise kind(f"{where}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return an exception as a reason, with its type unless it is our own."""
    return str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"


@contextmanager
def nothing_left(part: str, delete: Callable[[], object]) -> Iterator[None]:
    """Delete a part of a file if writing it fails. If that fails too, the error says so."""
    try:
        yield
    except Exception as error:
        try:
            with suppress(FileNotFoundError):
                delete()
        except Exception as another:
            raise DeliveryFailed(f"{reason(error)}; {part} is left behind: {reason(another)}") from error
        raise
