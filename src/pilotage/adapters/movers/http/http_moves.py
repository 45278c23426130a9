"""Renames at web servers, and the names that XRootD's web server reads differently from all others."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from pilotage.adapters.movers.storages.backend import PathEntry
from pilotage.ports.moving import StorageError, WrongFileError

if TYPE_CHECKING:
    import requests

XROOTD = "XrootD"
"""The beginning of the name by which its web server calls itself."""


class RenamingServer(Protocol):
    """A storage behind HTTP, as renames need it."""

    def url(self, path: str) -> str:
        """Return the address of a file."""

    def entry(self, path: str) -> PathEntry:
        """Look up a path. Raises FileNotFoundError."""

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str]
    ) -> AbstractContextManager["requests.Response"]:
        """Make a request. Raises StorageError, or FileNotFoundError."""


class HttpMoves:
    """Renames at one web server."""

    def __init__(self, server: RenamingServer, root: str) -> None:
        self._server, self._root = server, root
        self._name: str | None = None
        self._reads_escapes: bool | None = None

    @property
    def is_xrootd(self) -> bool:
        """Return whether an answer has shown that it is XRootD's web server."""
        return (self._name or "").startswith(XROOTD)

    def recognise(self, answer: "requests.Response") -> None:
        """Keep the name of the server's software from an answer. Once it is XRootD, it stays."""
        if not self.is_xrootd:
            self._name = answer.headers.get("Server", "")

    def check(self, path: str) -> None:
        """Raise WrongFileError for a name that the server would cut: another file may have the rest."""
        if "?" in path and self._name is None:
            with suppress(StorageError, OSError), self._server.request("HEAD", "", headers={}):
                pass
        if self.is_xrootd:
            check_for_xrootd(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file, replacing an existing one."""
        destination = self._server.url(target)
        if self.is_xrootd and not destination.endswith(f"/{target}"):
            if self._reads_escapes is None:
                source = self._tried(source)
            if not self._reads_escapes:
                if target.endswith(" "):
                    raise WrongFileError(f"{target!r} ends with a blank, which this server cuts: rename it")
                # Headers are sent in Latin-1, so this sends the name's own bytes.
                destination = f"{self._root}/{target}".encode().decode("latin-1")
        self._move(source, destination)

    def _tried(self, source: str) -> str:
        """Find out whether the server reads escapes in the target of a rename. Return the file's new name.

        Only later versions of XRootD do.
        """
        trial = f"{source} moved"
        self._move(source, self._server.url(trial))
        try:
            self._server.entry(trial)
        except FileNotFoundError:
            self._reads_escapes = False
            return f"{source.rpartition('/')[0]}/{quote(trial.rpartition('/')[2])}".lstrip("/")
        self._reads_escapes = True
        return trial

    def _move(self, source: str, destination: str) -> None:
        headers = {"Destination": destination, "Overwrite": "T"}
        with self._server.request("MOVE", source, headers=headers):
            pass


def check_for_xrootd(path: str) -> None:
    """Raise WrongFileError for a name that XRootD cannot hold: for its servers, options follow a ``?``."""
    if "?" in path:
        raise WrongFileError(
            f"{path!r} holds a ?, which XRootD servers cannot have in names: rename the file"
        )
