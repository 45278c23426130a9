"""XRootD servers as storages, through the protocol's own client library."""

import errno
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pilotage.ports.moving import Delivered, Progress, Readable, StorageError, WrongFileError

from .backend import Backend, PathEntry, StorageOptionError
from .checksums import DIGITS
from .failures import nothing_left
from .folders import beside, empty
from .third_party import CannotFetch

if find_spec("XRootD") is None:
    raise ImportError("the client of XRootD is not installed: pip install pilotage[xrootd]")

OPTIONS = {"token_file"}
AHEAD = 8 << 20
"""Bytes that are asked for in one go, while those before are worked on."""

THIRD_PARTY_FROM = 64 << 20
"""Bytes of a file from which on servers copy it among themselves: they take 2.5 s for each, however small."""

LIMITS = {
    "ConnectionWindow": 30,
    "ConnectionRetry": 1,
    "RequestTimeout": 300,
    "StreamTimeout": 60,
    # Its own: for half an hour after a connection broke the client refuses to try that server again.
    "StreamErrorWindow": 5,
}
"""Seconds, and tries, after which the client gives a server up; its own take ten minutes."""

FS_ERROR, NOT_AUTHORIZED, NOT_FOUND, EXISTS = 3005, 3010, 3011, 3018
"""Numbers of the protocol's errors."""


class XRootDBackend:
    """A folder of an XRootD server, ``root://HOST:PORT//PATH``; ``roots://`` with TLS.

    Option: ``token_file``, a file with a bearer token, read each time. X.509 proxies are found by the client
    library, in the environment of the server. What links lead to is the server's own matter.
    """

    writable = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        if unknown := sorted(set(options) - OPTIONS):
            raise StorageOptionError(f"xrootd: unknown options {unknown}; known are {sorted(OPTIONS)}")
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(f"{url!r} has no host; give one, as in root://host//path")
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._root = f"/{unquote(parts.path).strip('/')}".rstrip("/")
        self._token_file = options.get("token_file")

    def entry(self, path: str) -> PathEntry:
        """See :class:`~pilotage.movers.backend.Backend`."""
        return _entry(self._done(path, self._filesystem().stat(self._path(path))))

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """See :class:`~pilotage.movers.backend.Backend`."""
        from XRootD.client.flags import DirListFlags

        found = self._done(folder, self._filesystem().dirlist(self._path(folder), DirListFlags.STAT))
        for item in found:
            yield item.name, _entry(item.statinfo)

    @contextmanager
    def read(self, path: str) -> Iterator[Readable]:
        """See :class:`~pilotage.movers.backend.Backend`."""
        with self.read_from(path, 0) as stream:
            yield stream

    @contextmanager
    def read_from(self, path: str, start: int) -> Iterator[Readable]:
        """See :class:`~pilotage.movers.resuming.SeekableBackend`."""
        from XRootD.client.flags import OpenFlags

        if (kind := self.entry(path).kind) != "file":
            raise WrongFileError(f"{path} is not a plain file but a {kind}")
        with self._opened(path, OpenFlags.READ) as file:
            yield _XRootDStream(self, path, file, start)

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        """See :class:`~pilotage.movers.backend.Backend`."""
        from XRootD.client.flags import OpenFlags

        draft, offset = beside(path, part), 0
        with nothing_left(draft, lambda: self.delete(draft)):
            with self._opened(draft, OpenFlags.DELETE | OpenFlags.UPDATE | OpenFlags.MAKEPATH) as file:
                for chunk in chunks:
                    self._done(draft, file.write(chunk, offset))
                    offset += len(chunk)
                self._done(draft, file.sync())
            self.rename(draft, path)

    def fetch(self, source: Backend, path: str, draft: str, size: int, progress: Progress) -> None:
        """See :class:`~pilotage.movers.third_party.FetchingBackend`."""
        from XRootD.client import CopyProcess

        if not isinstance(source, XRootDBackend):
            raise CannotFetch("only one of them is an XRootD server")
        if size < THIRD_PARTY_FROM:
            raise CannotFetch(
                f"below {THIRD_PARTY_FROM / 1e6:g} MB a copy between XRootD servers takes longer"
            )
        copies = CopyProcess()
        copies.add_job(source.url(path), self.url(draft), force=True, mkdir=True, thirdparty="only")
        self._done(draft, (copies.prepare(), None))
        watched = _watched(progress)
        status, results = copies.run(watched)
        if watched.fault is not None:
            raise watched.fault
        self._done(draft, (results[0]["status"] if results else status, None))

    def describe(self, path: str, kind: str) -> Delivered | None:
        """See :class:`~pilotage.movers.third_party.FetchingBackend`."""
        from XRootD.client.flags import QueryCode

        status, answer = self._filesystem().query(QueryCode.CHECKSUM, self._path(path, f"cks.type={kind}"))
        told, _, digits = (answer or b"").decode(errors="replace").strip("\0\n ").partition(" ")
        if not status.ok or told != kind or len(digits) != DIGITS[kind]:
            return None
        size = self.entry(path).size
        return Delivered(size=size, checksum=f"{kind}:{digits.lower()}") if size is not None else None

    def rename(self, source: str, target: str) -> None:
        """See :class:`~pilotage.movers.backend.Backend`."""
        from XRootD.client.flags import MkDirFlags

        if folder := target.rpartition("/")[0]:
            status, _ = self._filesystem().mkdir(self._path(folder), MkDirFlags.MAKEPATH)
            if status.errno != EXISTS:
                self.checked(target, status)
        self._done(source, self._filesystem().mv(self._path(source), self._path(target)))

    def delete(self, path: str) -> None:
        """See :class:`~pilotage.movers.backend.Backend`."""
        self._done(path, self._filesystem().rm(self._path(path)))

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See :class:`~pilotage.movers.backend.Backend`."""
        if recursive:
            empty(self, path)
        self._done(path, self._filesystem().rmdir(self._path(path)))

    def url(self, path: str) -> str:
        """The address of a path, with the token: for the client library, and for nobody's eyes."""
        return f"{self._server}/{self._path(path)}"

    def checked(self, path: str, status: Any) -> None:
        """Raise FileNotFoundError or StorageError where a call failed, in words without our token."""
        if status.ok:
            return
        said = str(status.message).strip()
        for token in filter(None, {self._token(), quote(self._token())}):
            said = said.replace(token, "…")
        if status.errno == NOT_FOUND:
            raise FileNotFoundError(said)
        if status.errno == FS_ERROR and said.endswith("not a directory"):
            raise NotADirectoryError(errno.ENOTDIR, said)  # the number is that of any other fault, too
        failure = WrongFileError if status.errno == NOT_AUTHORIZED else StorageError
        raise failure(f"{path}: {said}")

    def _done(self, path: str, answer: tuple[Any, Any]) -> Any:
        status, found = answer
        self.checked(path, status)
        return found

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[Any]:
        from XRootD.client import File
        from XRootD.client.flags import AccessMode

        file = File()
        mode = AccessMode.UR | AccessMode.UW | AccessMode.GR | AccessMode.OR
        self._done(path, file.open(self.url(path), flags, mode))
        try:
            yield file
        except BaseException:
            with suppress(Exception):
                file.close()
            raise
        self._done(path, file.close())

    def _filesystem(self) -> Any:
        from XRootD import client

        for name, value in LIMITS.items():
            client.EnvPutInt(name, value)
        return client.FileSystem(self._server)

    def _path(self, path: str, more: str = "") -> str:
        """A path with what follows it in the client's addresses: the token, and ``more``."""
        token = f"authz=Bearer%20{quote(self._token())}" if self._token_file else ""
        query = "&".join(filter(None, (token, more)))
        at = f"{self._root}/{path}" if path else self._root or "/"
        return f"{at}?{query}" if query else at

    def _token(self) -> str:
        return Path(self._token_file).expanduser().read_text().strip() if self._token_file else ""


class _XRootDStream:
    """A file that is read from the byte ``start`` on, with the next bytes on their way."""

    def __init__(self, backend: XRootDBackend, path: str, file: Any, start: int) -> None:
        self._backend, self._path, self._file = backend, path, file
        self._offset, self._rest = start, memoryview(b"")
        self._next = self._ask()

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; empty at the end."""
        if not self._rest:
            status, data = self._next.result()
            self._backend.checked(self._path, status)
            self._rest = memoryview(data or b"")
            self._offset += len(self._rest)
            if self._rest:
                self._next = self._ask()
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)

    def _ask(self) -> "Future[tuple[Any, bytes]]":
        future: Future[tuple[Any, bytes]] = Future()
        told = lambda status, data, _: future.set_result((status, data))  # noqa: E731
        self._backend.checked(self._path, self._file.read(self._offset, AHEAD, callback=told))
        return future


def _watched(progress: Progress) -> Any:
    """A handler of the client library that tells progress, and ends the copy where that raises."""
    from XRootD.client.utils import CopyProgressHandler

    class Watched(CopyProgressHandler):  # type: ignore[misc]
        fault: Exception | None = None

        def update(self, _: int, processed: int, __: int) -> None:
            try:
                progress(processed)
            except Exception as fault:  # it must not pass through the library: it is raised after it
                self.fault = fault

        def should_cancel(self, _: int) -> bool:
            return self.fault is not None

    return Watched()


def _entry(found: Any) -> PathEntry:
    from XRootD.client.flags import StatInfoFlags

    if found.flags & StatInfoFlags.IS_DIR:
        return PathEntry("folder")
    return PathEntry("other") if found.flags & StatInfoFlags.OTHER else PathEntry("file", found.size)
