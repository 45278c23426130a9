"""Web servers that send uploads on, as redirectors of XRootD and doors of dCache do.

The chunks of a file come but once: such a server is asked where to by an upload without content, first.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pilotage.ports.moving import StorageError

if TYPE_CHECKING:
    import requests


class UploadDoor:
    """The memory of one server: whether it sends uploads on. Safe to use from many threads."""

    def __init__(
        self, put_nothing: Callable[[str], "requests.Response"], delete: Callable[[str], None]
    ) -> None:
        self._put_nothing, self._delete = put_nothing, delete
        self._known: bool | None = None

    @property
    def sends_on(self) -> bool:
        """Whether it does, as far as that is known."""
        return bool(self._known)

    def forget(self) -> None:
        """Ask again: it did otherwise than it used to."""
        self._known = None

    def learn(self, path: str) -> None:
        """Find out, unless that is known, by an empty file under a name that nobody else uses."""
        if self._known is not None:
            return
        # Whoever cannot be reached now is asked at the next file.
        with suppress(OSError), self._put_nothing(path) as answer:
            self._known = answer.is_redirect
            if answer.ok and not answer.is_redirect:
                with suppress(FileNotFoundError, StorageError):
                    self._delete(path)
