"""XRootD servers as storages, through the protocol's own client library."""

import ctypes
import errno
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pilotage.adapters.movers.copies.checksums import checksum_of
from pilotage.adapters.movers.copies.third_party import CannotFetch
from pilotage.adapters.movers.http.http_moves import check_for_xrootd
from pilotage.adapters.movers.http.redirects import Redirects, check_option
from pilotage.adapters.movers.storages.backend import Backend, PathEntry, StorageOptionError
from pilotage.adapters.movers.storages.backend_calls import empty, explained, nothing_left, sibling_path
from pilotage.agent.files.web_addresses import without_query
from pilotage.model.values.phrases import not_installed
from pilotage.ports.moving import Delivered, Progress, Readable, Space, StorageError, WrongFileError

if find_spec("XRootD") is None:
    raise ImportError(not_installed("xrootd", "xrootd"))

OPTIONS = {"token_file", "redirects_to"}
MOST_REDIRECTS = 16
AHEAD, CALLS = 4 << 20, 4
"""Bytes per request, and concurrent requests while earlier bytes are processed. Answers of distant servers
take long: with a single request at a time, the connection would often be idle."""

WRITES = 16
"""Chunks of a file on their way to a server at the same time."""

THIRD_PARTY_FROM = 64 << 20
"""Least size in bytes of files that servers copy among themselves: each copy takes at least 2.5 s."""

LIMITS = {
    "ConnectionWindow": 30,
    "ConnectionRetry": 1,
    "RequestTimeout": 300,
    "StreamTimeout": 60,
    # Override its default: for half an hour after a broken connection, the client refuses to try that server
    # again.
    "StreamErrorWindow": 5,
    # Additional connections for a server's data: one alone is slow from afar.
    "SubStreamsPerChannel": 4,
    # Otherwise a file that is named like a list of addresses would be read as one, and followed.
    "MetalinkProcessing": 0,
}
"""Settings of the client: seconds and tries after which it gives up on a server (its defaults take ten
minutes)."""

UNHANDLED = re.compile(r"\[ERROR\] Unhandled redirect: (\S*)")

FS_ERROR, NOT_AUTHORIZED, NOT_FOUND, EXISTS = 3005, 3010, 3011, 3018
"""Numbers of the protocol's errors."""


class XRootDBackend:
    """A folder of an XRootD server, ``root://HOST:PORT//PATH``; ``roots://`` with TLS.

    Options: ``token_file``, a file with a bearer token, read each time; ``redirects_to``, the hosts that it
    may redirect to. The client library finds X.509 proxies in the server's environment. Where links lead is
    up to the XRootD server.
    """

    writable = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        if unknown := sorted(set(options) - OPTIONS):
            raise StorageOptionError(f"xrootd: unknown options {unknown}; known are {sorted(OPTIONS)}")
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(f"{url!r} has no host; give one, as in root://host//path")
        named = options.get("redirects_to")
        check_option("xrootd", named)
        self._redirects = Redirects(url, named)
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._root = f"/{unquote(parts.path).strip('/')}".rstrip("/")
        self._token_file = options.get("token_file")

    def entry(self, path: str) -> PathEntry:
        """See ``Backend``."""
        return _entry(self._done(path, self._filesystem().stat(self._path(path))))

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """See ``Backend``."""
        from XRootD.client.flags import DirListFlags

        items = self._done(folder, self._filesystem().dirlist(self._path(folder), DirListFlags.STAT))
        for item in items:
            yield item.name, _entry(item.statinfo)

    def read(self, path: str) -> AbstractContextManager[Readable]:
        """See ``Backend``."""
        return self.read_from(path, 0)

    @contextmanager
    def read_from(self, path: str, start: int) -> Iterator[Readable]:
        """See ``SeekableBackend``."""
        from XRootD.client.flags import OpenFlags

        if (entry := self.entry(path)).kind != "file":
            raise WrongFileError(f"{path} is not a plain file but a {entry.kind}")
        with self._opened(path, OpenFlags.READ) as file:
            stream = _XRootDStream(self, path, file, start, entry.size or 0)
            try:
                yield stream
            finally:
                stream.forget()

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        """See ``Backend``."""
        from XRootD.client.flags import OpenFlags

        draft = sibling_path(path, part)
        with nothing_left(draft, lambda: self.delete(draft)):
            with self._opened(draft, OpenFlags.DELETE | OpenFlags.UPDATE | OpenFlags.MAKEPATH) as file:
                self._write(draft, file, chunks)
                self._done(draft, file.sync())
            self.rename(draft, path)

    def _write(self, path: str, file: Any, chunks: Iterable[bytes]) -> None:
        """Write chunks. Some are on their way while the next is read."""
        offset = 0
        # Keep the chunks, because the library reads them until it has its answer.
        writes: deque[tuple[Future[tuple[Any, None]], bytes]] = deque()
        try:
            for chunk in chunks:
                if len(writes) == WRITES:
                    self._done(path, writes.popleft()[0].result())
                answer: Future[tuple[Any, None]] = Future()
                self.checked(path, file.write(chunk, offset, callback=partial(_set_result, answer)))
                writes.append((answer, chunk))
                offset += len(chunk)
        finally:
            answers = [answer.result() for answer, _ in writes]
        for result in answers:
            self._done(path, result)

    def fetch(self, source: Backend, path: str, draft: str, size: int, progress: Progress) -> None:
        """See ``FetchingBackend``."""
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
        """See ``FetchingBackend``."""
        from XRootD.client.flags import QueryCode

        status, answer = self._filesystem().query(QueryCode.CHECKSUM, self._path(path, f"cks.type={kind}"))
        algorithm, _, digits = (answer or b"").decode(errors="replace").strip("\0\n ").partition(" ")
        checksum = checksum_of(kind, digits)
        if not status.ok or algorithm.lower() != kind or not checksum:
            return None
        size = self.entry(path).size
        return Delivered(size=size, checksum=checksum) if size is not None else None

    def space(self) -> Space | None:
        """See ``SpaceBackend``. It is the server's space, or the rest of its
        quota.

        For a folder that does not exist yet a server reports no space: ask for the nearest one above it.
        """
        from XRootD.client.flags import QueryCode

        files, at = self._filesystem(), self._root
        query = self._path("").partition("?")[2]
        while at and files.stat(self._with(at, query))[0].errno == NOT_FOUND:
            at = at.rpartition("/")[0]
        answer = self._done("", files.query(QueryCode.SPACE, self._with(at or "/", query)))
        return _space(answer.decode(errors="replace").strip("\0\n "))

    def rename(self, source: str, target: str) -> None:
        """See ``Backend``."""
        from XRootD.client.flags import MkDirFlags

        if folder := target.rpartition("/")[0]:
            status, _ = self._filesystem().mkdir(self._path(folder), MkDirFlags.MAKEPATH)
            if status.errno != EXISTS:
                self.checked(target, status)
        self._done(source, self._filesystem().mv(self._path(source), self._path(target)))

    def delete(self, path: str) -> None:
        """See ``Backend``."""
        self._done(path, self._filesystem().rm(self._path(path)))

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See ``Backend``."""
        if recursive:
            empty(self, path)
        self._done(path, self._filesystem().rmdir(self._path(path)))

    def url(self, path: str) -> str:
        """Return the address of a path with the token, for the client library only."""
        return f"{self._server}/{self._path(path)}"

    def checked(self, path: str, status: Any) -> None:
        """Raise FileNotFoundError or StorageError if a call failed, with a message without our token."""
        if status.ok:
            return
        message = str(status.message).strip()
        for token in filter(None, {self._token(), quote(self._token())}):
            message = message.replace(token, "…")
        if status.errno == NOT_FOUND:
            raise FileNotFoundError(message)
        if status.errno == FS_ERROR and message.endswith("not a directory"):
            raise NotADirectoryError(errno.ENOTDIR, message)  # other faults have this number, too
        failure = WrongFileError if status.errno == NOT_AUTHORIZED else StorageError
        raise failure(f"{path}: {message}")

    def _done(self, path: str, answer: tuple[Any, Any]) -> Any:
        status, result = answer
        self.checked(path, status)
        return result

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[Any]:
        file = self._open_at_server(path, flags)
        try:
            yield file
        except BaseException:
            with suppress(Exception):
                file.close()
            raise
        self._done(path, file.close())

    def _open_at_server(self, path: str, flags: int) -> Any:
        """Open a file at the server, or at one that it redirects to.

        Do not let the library follow: it would open a file of this machine if a server redirects it there.
        """
        from XRootD.client import File
        from XRootD.client.flags import AccessMode

        mode = AccessMode.UR | AccessMode.UW | AccessMode.GR | AccessMode.OR
        url = self.url(path)
        for _ in range(MOST_REDIRECTS):
            file = File()
            _borrowed(file.set_property("FollowRedirects", "false"))
            status, _ = file.open(url, flags, mode)
            if (to := redirection(status.message)) is None:
                self.checked(path, status)
                return file
            if urlsplit(to).scheme not in ("root", "roots"):
                raise StorageError(f"{path}: sent on to {without_query(to)}, which is not followed")
            with explained(StorageError, path):
                self._redirects.check(to)
            url = self._moved(path, to)
        raise StorageError(f"{path}: sent on more than {MOST_REDIRECTS} times")

    def _moved(self, path: str, to: str) -> str:
        """Return the address of a path at the target of a redirection, which may have changed the path.

        Our additions and the server's stay, and the connection stays as secure as it was.
        """
        parts, address = urlsplit(to), self._path(path).partition("?")
        scheme = "roots" if self._server.startswith("roots:") else parts.scheme
        added = [option for option in parts.query.split("&") if option and not option.startswith("xrdcl.")]
        at = parts.path if parts.path.strip("/") else f"/{address[0]}"
        return f"{scheme}://{parts.netloc}{at}?{'&'.join(filter(None, (address[2], *added)))}"

    def _filesystem(self) -> Any:
        from XRootD import client

        for name, value in LIMITS.items():
            client.EnvPutInt(name, value)
        return client.FileSystem(self._server)

    def _path(self, path: str, more: str = "") -> str:
        """Return a path with the suffix of the client's addresses: the token, and ``more``."""
        check_for_xrootd(path)
        token = f"authz=Bearer%20{quote(self._token())}" if self._token_file else ""
        query = "&".join(filter(None, (token, more)))
        return self._with(f"{self._root}/{path}" if path else self._root or "/", query)

    @staticmethod
    def _with(at: str, query: str) -> str:
        return f"{at}?{query}" if query else at

    def _token(self) -> str:
        return Path(self._token_file).expanduser().read_text().strip() if self._token_file else ""


def redirection(message: str) -> str | None:
    """Return the address of a redirection, from the library's message; None if there was none."""
    match = UNHANDLED.match(message)
    return match and match[1]


def _borrowed(answer: object) -> None:
    """Balance the library's reference count of True: its method returns True without owning a reference."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(answer))


class _XRootDStream:
    """A file that is read from the byte ``start`` on, with the next bytes on their way."""

    def __init__(self, backend: XRootDBackend, path: str, file: Any, start: int, size: int) -> None:
        self._backend, self._path, self._file = backend, path, file
        self._next, self._size, self._rest = start, size, memoryview(b"")
        self._asked: deque[tuple[int, Future[tuple[Any, bytes]]]] = deque()
        self._ask()

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        if not self._rest and self._asked:
            begin, answer = self._asked.popleft()
            status, data = answer.result()
            self._backend.checked(self._path, status)
            self._rest = memoryview(data or b"")
            if len(self._rest) < AHEAD:
                # At the end or before: the bytes after a short answer are requested again.
                self.forget()
                self._next = begin + len(self._rest)
            if self._rest:
                self._ask()
        part, self._rest = self._rest[:size], self._rest[size:]
        return bytes(part)

    def forget(self) -> None:
        """Wait for pending answers. Without them a file cannot be closed."""
        while self._asked:
            self._asked.popleft()[1].result()

    def _ask(self) -> None:
        """Send as many requests as allowed, and one more at the expected end, to check that it is the end."""
        while len(self._asked) < CALLS and (self._next < self._size or not self._asked):
            answer: Future[tuple[Any, bytes]] = Future()
            callback = partial(_set_result, answer)
            self._backend.checked(self._path, self._file.read(self._next, AHEAD, callback=callback))
            self._asked.append((self._next, answer))
            self._next += AHEAD


def _set_result(answer: "Future[tuple[Any, Any]]", status: Any, result: Any, _: Any) -> None:
    answer.set_result((status, result))


def _watched(progress: Progress) -> Any:
    """Return a handler for the client library that reports progress, and stops the copy if that raises."""
    from XRootD.client.utils import CopyProgressHandler

    class Watched(CopyProgressHandler):  # type: ignore[misc]
        fault: Exception | None = None

        def update(self, _: int, processed: int, __: int) -> None:
            try:
                progress(processed)
            except Exception as fault:  # keep it from the library, and raise it afterwards
                self.fault = fault

        def should_cancel(self, _: int) -> bool:
            return self.fault is not None

    return Watched()


def _space(text: str) -> Space | None:
    """Return the space in a server's answer, as ``oss.space=N&oss.free=N&oss.quota=N``; -1 means no quota."""
    numbers = {name: int(value) for name, value in parse_qsl(text) if value.isdecimal()}
    free, total = numbers.get("oss.free"), numbers.get("oss.space")
    if free is None:
        return None
    if (quota := numbers.get("oss.quota")) is not None:
        free, total = min(free, max(0, quota - numbers.get("oss.used", 0))), quota
    return Space(free=free, total=total)


def _entry(status: Any) -> PathEntry:
    from XRootD.client.flags import StatInfoFlags

    if status.flags & StatInfoFlags.IS_DIR:
        return PathEntry("folder")
    return PathEntry("other") if status.flags & StatInfoFlags.OTHER else PathEntry("file", status.size)
