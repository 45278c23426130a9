"""Web servers that redirect uploads, like redirectors of XRootD and doors of dCache.

A file's chunks can be sent only once, so such a server first gets a question, to learn the target.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from pilotage.ports.moving import StorageError

if TYPE_CHECKING:
    import requests

QUESTION = b"?"
"""The content of an upload that only asks. Some servers keep empty files themselves."""

ANY_FAULT = range(400, 600)


class UploadDoor:
    """The memory of how often one server redirects uploads. Safe to use from many threads."""

    def __init__(
        self,
        request: Callable[..., "AbstractContextManager[requests.Response]"],
        delete: Callable[[str], None],
    ) -> None:
        self._request, self._delete = request, delete
        self._known: int | None = None

    @property
    def redirects(self) -> int:
        """Return how many servers in a row redirect an upload; 0 before ``learn``."""
        return self._known or 0

    def forget(self) -> None:
        """Forget the answer, because the server behaved differently."""
        self._known = None

    def learn(self, path: str) -> None:
        """Find out, unless that is known, with an upload of the question under an unused name."""
        if self._known is not None:
            return
        # If the server cannot be reached now, try again at the next file.
        with suppress(OSError), self._request("PUT", path, body=QUESTION, allowed=ANY_FAULT) as answer:
            self._known = len(answer.history)
            if answer.ok:
                with suppress(FileNotFoundError, StorageError):
                    self._delete(path)
