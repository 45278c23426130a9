"""The ways to reach a job's files: the storage's URL, a program of the node, an address for one file, or the
server.

Some storages *ask*: their URL alone does not open them, because their credentials stay at the server. For
these the server gives an address for one file and a short time, or else hands on the bytes.
"""

from __future__ import annotations

import errno
import logging
import time
import urllib.error
from collections.abc import Callable, Sequence
from dataclasses import replace
from http.client import HTTPException, HTTPResponse
from typing import IO, Protocol, TypeVar

from .. import node_credentials, wire
from ..client import STORAGE_FAILED
from ..payload.attempt import Attempt, AttemptFailedError
from . import xrootd
from .storage import HttpServer, OpenStorage, open_storage
from .web import Web, body, not_found

log = logging.getLogger(__name__)
T = TypeVar("T")
Halt = Callable[[], bool]
"""Returns whether to stop, because the file is not needed now."""
AVOIDED_FOR = 600.0
"""Seconds before a failed way is tried again, for all files of the storage."""


class FileServer(Protocol):
    """The pilot's server, as file access needs it.

    Every call raises OSError or HTTPException. It raises UnreachableError while the server is away or busy:
    then the caller asks again later.
    """

    def access(self, request: wire.FileRequest) -> wire.Access:
        """Ask for an address of one file."""

    def content(
        self, request: wire.FileRequest, method: str, source: IO[bytes] | None = None
    ) -> HTTPResponse:
        """Read a file that the server itself hands on, or write all of ``source`` to it."""


class FileRoute(Protocol):
    """A way to one file. Calls raise OSError, HTTPException or ValueError if this way fails."""

    def read(self, path: str) -> IO[bytes]:
        """Open the file to read it. Raises FileNotFoundError if there is none."""

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``. Return the bytes that arrived, or None if the server does not say."""


_OF_FILES = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.ELOOP, errno.EXDEV, errno.EISDIR),
        *(errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.EACCES, errno.EPERM),
    }
)
"""Errors that concern one path in a folder, and say nothing about other paths."""


def is_storages_fault(storage: OpenStorage, error: Exception) -> bool:
    """Return whether an error is the storage's fault, not the fault of one file or of the pilot's server."""
    if isinstance(storage, _AskedFile):
        # Any other status may come from the server itself, or from the way to it.
        return isinstance(error, urllib.error.HTTPError) and error.code == STORAGE_FAILED
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500
    if isinstance(error, OSError):
        return error.errno not in _OF_FILES
    return isinstance(error, HTTPException)


class StorageRoutes:
    """The ways to storages, without recent failures."""

    def __init__(self, server: FileServer) -> None:
        self._server = server
        self._avoided: dict[tuple[str, str], float] = {}

    def to(self, attempt: Attempt, name: str, source: str) -> OpenStorage:
        """Return the way to an input at a ``source`` (empty: the queue's storage), or to an output.

        Raises AttemptFailedError if the storage cannot be opened.
        """
        work = attempt.work
        place = wire.Source(work.storage_url, work.storage_options, work.asks)
        if source:
            if source not in work.sources:
                raise AttemptFailedError(f"storage {source} of an input is not among the sources of its work")
            place = work.sources[source]
        if place.asks:
            request = wire.FileRequest(*attempt.pair, name, source)
            return _AskedFile(self, self._server, place, request)
        try:
            return open_storage(place.url, place.options)
        except (ValueError, TypeError, AttributeError) as error:
            label = f"storage {source}" if source else f"storage of task {work.task}"
            raise AttemptFailedError(f"{label} cannot be opened: {error}") from error

    def is_avoided(self, route: str, url: str) -> bool:
        """Return whether a way to a storage failed lately."""
        return self._avoided.get((route, url), 0.0) > time.monotonic()

    def avoid(self, route: str, url: str, error: Exception) -> None:
        """Avoid a way for some time."""
        log.warning("%s: %s failed, avoided for %g s: %s", url, route, AVOIDED_FOR, error)
        self._avoided[route, url] = time.monotonic() + AVOIDED_FOR


class _AskedFile:
    """One file of a storage that asks, over the first way that works."""

    def __init__(
        self, routes: StorageRoutes, server: FileServer, place: wire.Source, request: wire.FileRequest
    ) -> None:
        self._routes, self._url, self._request = routes, place.url, request
        url, hosts = place.url, place.options.get("redirects_to")
        self._open: dict[str, FileRoute] = {
            **xrootd.access_methods(url),
            "an address": _Granted(server, request, hosts),
        }
        # Last, because the server's own address is known to be for this storage.
        if url.startswith("https://") and node_credentials.are_there():
            self._open["the node's credentials"] = _WithCredentials(url, hosts)
        self._last = _Relayed(server, request)
        self._used = ""

    def read(self, path: str) -> IO[bytes]:
        """Open the file to read it.

        A second call uses another way, because the bytes of the last were wrong.
        """
        self._open.pop(self._used, None)
        return self._first(lambda route: route.read(path))

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``."""
        return self._first(lambda route: route.write(path, source))

    def remove(self, folder: str) -> None:
        """Do nothing: the server deletes the folder after the attempt."""

    def _first(self, use: Callable[[FileRoute], T]) -> T:
        for name, route in self._open.items():
            if self._routes.is_avoided(name, self._url):
                continue
            try:
                result = use(route)
            except (_NoAddressError, FileNotFoundError):
                continue  # only the server knows whether there is such a file
            except (OSError, HTTPException, ValueError) as error:
                self._routes.avoid(name, self._url, error)
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
            else:
                self._used = name
                log.info("%s: by %s", self._request.name, name)
                return result
        log.info("%s: by the server, which hands it on", self._request.name)
        return use(self._last)


class _NoAddressError(Exception):
    """The server gives no address for a file."""


class _Granted:
    """One file at an address that the server gives for a short time."""

    def __init__(self, server: FileServer, request: wire.FileRequest, hosts: Sequence[str] | None) -> None:
        self._server, self._request, self._hosts = server, request, hosts

    def read(self, path: str) -> IO[bytes]:
        """Open the file to read it."""
        web, url = self._address(None)
        try:
            return body(web.ask("GET", url))
        except urllib.error.HTTPError as error:
            raise not_found(error, path) from error

    def write(self, path: str, source: IO[bytes]) -> int | None:  # noqa: ARG002
        """Store all of ``source``."""
        web, url = self._address(source.seek(0, 2))
        web.ask("PUT", url, source).close()
        return None

    def _address(self, size: int | None) -> tuple[Web, str]:
        access = self._server.access(replace(self._request, size=size))
        if not access.url:
            raise _NoAddressError
        web = Web(access.headers, authorities=access.authorities, redirects_to=self._hosts)
        return web, access.url


class _WithCredentials:
    """One file of a web storage, with the node's current credentials."""

    def __init__(self, url: str, hosts: Sequence[str] | None) -> None:
        self._url, self._hosts = url, hosts

    def read(self, path: str) -> IO[bytes]:
        """Open the file to read it."""
        return HttpServer(self._url, node_credentials.web(self._hosts)).read(path)

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``."""
        return HttpServer(self._url, node_credentials.web(self._hosts)).write(path, source)


class _Relayed:
    """One file through the server, which hands on only a few at a time."""

    def __init__(self, server: FileServer, request: wire.FileRequest) -> None:
        self._server, self._request = server, request

    def read(self, path: str) -> IO[bytes]:
        """Open the file to read it."""
        try:
            return body(self._server.content(self._request, "GET"))
        except urllib.error.HTTPError as error:
            raise not_found(error, path) from error

    def write(self, path: str, source: IO[bytes]) -> int | None:  # noqa: ARG002
        """Store all of ``source``."""
        self._server.content(self._request, "PUT", source).close()
        return None
