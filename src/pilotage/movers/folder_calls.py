"""Folders of storages that have no call for what is needed of them."""

from contextlib import suppress

from .backend import Backend


def beside(path: str, name: str) -> str:
    """Return the path of a name in the folder of a path."""
    return f"{path.rpartition('/')[0]}/{name}".lstrip("/")


def empty(backend: Backend, folder: str) -> None:
    """Delete all that is in a folder, one by one."""
    # Listed whole before anything goes: few servers say what a listing holds that changes meanwhile.
    for name, entry in list(backend.entries(folder)):
        with suppress(FileNotFoundError):
            if entry.kind == "folder":
                backend.delete_folder(f"{folder}/{name}", recursive=True)
            else:
                backend.delete(f"{folder}/{name}")
