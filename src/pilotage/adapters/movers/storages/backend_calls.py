"""What kinds of storages share: their failures, folders without a call for them, parts of files.

Every library has its own exceptions; here all become the port's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pilotage.adapters.movers.storages.backend import Backend
from pilotage.ports.moving import DeliveryFailed, StorageError


def sibling_path(path: str, name: str) -> str:
    """Return the path of a name in the folder of a path."""
    return f"{path.rpartition('/')[0]}/{name}".lstrip("/")


def empty(backend: Backend, folder: str) -> None:
    """Delete everything in a folder, item by item."""
    # List everything before deleting: few servers define a listing that changes while it is read.
    for name, entry in list(backend.entries(folder)):
        with suppress(FileNotFoundError):
            if entry.kind == "folder":
                backend.delete_folder(f"{folder}/{name}", recursive=True)
            else:
                backend.delete(f"{folder}/{name}")


@contextmanager
def explained(failure: type[StorageError], label: str) -> Iterator[None]:
    """Turn every exception into ``failure``, or keep its kind if it is one, and add the place."""
    try:
        yield
    except Exception as error:
        kind = type(error) if isinstance(error, failure) else failure
        raise kind(f"{label}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return an exception as a reason, with its type unless it is our own."""
    return str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"


@contextmanager
def nothing_left(part: str, delete: Callable[[], object]) -> Iterator[None]:
    """Delete a part of a file if writing it fails. If that fails too, the error names both failures."""
    try:
        yield
    except Exception as error:
        try:
            with suppress(FileNotFoundError):
                delete()
        except Exception as another:
            raise DeliveryFailed(f"{reason(error)}; {part} is left behind: {reason(another)}") from error
        raise
