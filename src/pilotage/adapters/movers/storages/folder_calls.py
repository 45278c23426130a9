"""Folder operations for storages without a call for them."""

from contextlib import suppress

from pilotage.adapters.movers.storages.backend import Backend


def beside(path: str, name: str) -> str:
    """Return the path of a name in the folder of a path."""
    return f"{path.rpartition('/')[0]}/{name}".lstrip("/")


def empty(backend: Backend, folder: str) -> None:
    """Delete everything in a folder, item by item."""
    # List everything before deleting: few servers define a listing that changes meanwhile.
    for name, entry in list(backend.entries(folder)):
        with suppress(FileNotFoundError):
            if entry.kind == "folder":
                backend.delete_folder(f"{folder}/{name}", recursive=True)
            else:
                backend.delete(f"{folder}/{name}")
