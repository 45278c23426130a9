"""Storages that the standard library can open: mounted folders, HTTP and WebDAV servers."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import urllib.error
import urllib.parse
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import IO, Any, Protocol

from .web import BLOCK, GONE, Web, body, not_found
from .web_addresses import is_encoded

_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x04, 0x08
_OPENAT2 = 437
_libc = ctypes.CDLL(None, use_errno=True)


class OpenStorage(Protocol):
    """A storage that holds files by path. Every call raises OSError or HTTPException if it fails."""

    def read(self, path: str) -> IO[bytes]:
        """Open a file to read it. Raises FileNotFoundError if there is none."""

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``, reading it again if needed.

        Return the bytes that arrived, or None if unknown.
        """

    def remove(self, folder: str) -> None:
        """Delete a folder with all its content. A missing folder is no error."""


def open_storage(url: str, options: Mapping[str, Any]) -> OpenStorage:
    """Return the storage behind a URL. Raises ValueError.

    The options used here are an HTTP server's ``headers`` (also in ``client_kwargs``) and ``redirects_to``.
    """
    scheme, mark, place = url.partition("://")
    if not mark:
        scheme, place = "file", url
    if scheme in ("file", "local"):
        return Folder(place)
    if scheme in ("http", "https"):
        inner = options.get("client_kwargs", {})
        headers = {**inner.get("headers", {}), **options.get("headers", {})}
        return HttpServer(url, Web(headers, redirects_to=options.get("redirects_to")))
    raise ValueError(
        f"{scheme}:// is no address that can be opened as it is: it takes file://, http:// or https://"
    )


class Folder:
    """A folder of this machine. No path leads out of it, not even through links inside it."""

    def __init__(self, root: str) -> None:
        self._root = Path(root).expanduser()

    def read(self, path: str) -> IO[bytes]:
        """Open a file to read it."""
        # Without O_NONBLOCK, opening a pipe in place of a file would block.
        descriptor = self._open(path, os.O_RDONLY | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.fdopen(descriptor, "rb")

    def _open(self, path: str, flags: int) -> int:
        root = os.open(self._root, os.O_PATH | os.O_DIRECTORY)
        try:
            return open_beneath(root, path, flags)
        finally:
            os.close(root)

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``. Return the size of the file in bytes."""
        folder, _, name = path.rpartition("/")
        directory = self._make_folder(folder)
        try:
            create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            with os.fdopen(os.open(name, create, 0o644, dir_fd=directory), "wb") as target:
                shutil.copyfileobj(source, target, BLOCK)
                target.flush()
                return os.fstat(target.fileno()).st_size
        finally:
            os.close(directory)

    def _make_folder(self, folder: str) -> int:
        """Return a descriptor of a folder. Make it and its parents if missing; refuse links."""
        self._root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        for part in folder.split("/"):
            above = descriptor
            try:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=above)
                descriptor = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            finally:
                os.close(above)
        return descriptor

    def remove(self, folder: str) -> None:
        """Delete a folder with all its content. Links are removed, not followed."""
        above, _, name = folder.rpartition("/")
        with suppress(FileNotFoundError):
            parent = self._open(above, os.O_PATH | os.O_DIRECTORY)
            try:
                # Use the open folder: swapping it for a link then changes nothing.
                shutil.rmtree(f"/proc/self/fd/{parent}/{name}")
            finally:
                os.close(parent)


def open_beneath(root: int, path: str, flags: int) -> int:
    """Open a path below a folder. Refuse symbolic links on the way with OSError, as movers do.

    The kernel enforces it (openat2, Linux 5.6). On older kernels each part is opened in turn.
    """
    open_how = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS)
    descriptor: int = _libc.syscall(
        _OPENAT2, root, os.fsencode(path), ctypes.byref(open_how), ctypes.sizeof(open_how)
    )
    if descriptor >= 0:
        return descriptor
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):  # sandboxes answer EPERM to calls that they do not know
        return _open_without_links(root, path, flags)
    linked = number in (errno.EXDEV, errno.ELOOP)
    fault = "links inside a storage are not followed" if linked else os.strerror(number)
    raise OSError(number, fault, path)


def _open_without_links(root: int, path: str, flags: int) -> int:
    above = os.dup(root)
    *folders, name = path.split("/")
    try:
        for folder in folders:
            inner = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = inner
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(above)


class HttpServer:
    """Files behind a URL, with GET, PUT and DELETE. MKCOL makes folders if the server needs it."""

    def __init__(self, url: str, web: Web) -> None:
        self._root, self._web = url.rstrip("/"), web

    def read(self, path: str) -> IO[bytes]:
        """Open a file to read it."""
        try:
            return body(self._ask("GET", path))
        except urllib.error.HTTPError as error:
            raise not_found(error, path) from error

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``. Return the bytes that the server reports."""
        try:
            self._ask("PUT", path, source).close()
        except urllib.error.HTTPError as error:
            # The parent folder is missing: 409 by RFC 4918, 404 on some servers.
            if error.code not in (404, 409):
                raise
            self._make_folders(path.rpartition("/")[0])
            self._ask("PUT", path, source).close()
        # Ask again, because an accepted PUT does not say how many bytes the server kept.
        with self._ask("HEAD", path) as answer:
            size = answer.headers.get("Content-Length")
            if size is None or is_encoded(answer.headers.get("Content-Encoding"), answer.url):
                return None
            return int(size)

    def _make_folders(self, folder: str) -> None:
        parts = folder.split("/")
        for depth in range(1, len(parts) + 1):
            try:
                self._ask("MKCOL", "/".join(parts[:depth])).close()
            except urllib.error.HTTPError as error:
                if error.code != 405:  # it is there already
                    raise

    def remove(self, folder: str) -> None:
        """Delete a folder with all its content."""
        try:
            self._ask("DELETE", folder).close()
        except urllib.error.HTTPError as error:
            if error.code not in GONE:
                raise

    def _ask(self, method: str, path: str, source: IO[bytes] | None = None) -> HTTPResponse:
        return self._web.ask(method, f"{self._root}/{urllib.parse.quote(path, safe='/:@=~')}", source)
