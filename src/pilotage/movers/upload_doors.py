"""Web servers that redirect uploads, like redirectors of XRootD and doors of dCache.

A file's chunks can be sent only once, so such a server first gets an upload without content, to learn the
target.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pilotage.ports.moving import StorageError

if TYPE_CHECKING:
    import requests


class UploadDoor:
    """The memory of whether one server redirects uploads. Safe to use from many threads."""

    def __init__(
        self, put_nothing: Callable[[str], "requests.Response"], delete: Callable[[str], None]
    ) -> None:
        self._put_nothing, self._delete = put_nothing, delete
        self._known: bool | None = None

    @property
    def sends_on(self) -> bool:
        """Return whether it does, as far as that is known."""
        return bool(self._known)

    def forget(self) -> None:
        """Forget the answer, because the server behaved differently."""
        self._known = None

    def learn(self, path: str) -> None:
        """Find out, unless that is known, with an empty file under an unused name."""
        if self._known is not None:
            return
        # If the server cannot be reached now, try again at the next file.
        with suppress(OSError), self._put_nothing(path) as answer:
            self._known = answer.is_redirect
            if answer.ok and not answer.is_redirect:
                with suppress(FileNotFoundError, StorageError):
                    self._delete(path)
