"""Directories behind SSH as storages, over SFTP."""

import asyncio
import logging
import socket
import struct
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from pilotage.adapters.movers.copies.ranged import spare
from pilotage.adapters.movers.sftp.sftp_streams import CALL_LIMIT, LargeStream, OpenFile, SftpStream
from pilotage.adapters.movers.sftp.ssh_reader import Login, SshReader
from pilotage.adapters.movers.storages.backend import LinkError, PathEntry, StorageOptionError
from pilotage.adapters.movers.storages.backend_calls import empty, nothing_left, sibling_path
from pilotage.model.values.phrases import not_installed
from pilotage.ports.loop_thread import LoopThread
from pilotage.ports.moving import Readable, Space, StorageError, WrongFileError

if find_spec("asyncssh") is None:
    raise ImportError(not_installed("asyncssh", "sftp"))
if TYPE_CHECKING:
    from asyncssh import SFTPAttrs, SFTPClient, SFTPClientFile, SSHClientConnection

T = TypeVar("T")
log = logging.getLogger(__name__)

OPTIONS = {"key_file", "known_hosts", "ssh_config"}
CONNECT_LIMIT = 30.0
"""Time limit in s for connecting."""

NEAR = 0.01
"""Round-trip time in s above which ``ssh`` reads no files: its window of 2 MiB is too small then."""

RTT, MIN_RTT = 68, 148
"""Offsets in Linux's ``tcp_info`` of the round-trip time in µs, and of its minimum over some minutes."""

WITHOUT_SSH = 600.0
"""Seconds without ``ssh`` after it failed to read a file."""

KEEPALIVE = 15
"""Seconds between keepalive messages. After three without an answer the connection ends."""

WRITES = 8
"""Chunks of a file on their way to a server at the same time: distant answers take long."""

WINDOW = 8 << 20
"""Bytes that a server may send before we acknowledge them. The library's default is 2 MiB."""

CIPHERS = "^aes128-gcm@openssh.com"
"""Try this first: processors have instructions for it, and it is several times as fast as the usual one."""


class SftpBackend:
    """A directory of an SSH server, ``sftp://USER@HOST:PORT/PATH``, over one connection.

    Options: ``key_file``, a private key; ``known_hosts``, a file of host keys; ``ssh_config``, a description
    of hosts, keys and jump hosts, by default ``~/.ssh/config``. SFTP cannot open a file inside an open
    directory. So links are searched before each use, and a link that replaces a folder at that moment is
    followed.
    """

    writable = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        if unknown := sorted(set(options) - OPTIONS):
            raise StorageOptionError(f"sftp: unknown options {unknown}; known are {sorted(OPTIONS)}")
        parts = urlsplit(url)
        if not parts.hostname or not parts.path.startswith("/"):
            raise ValueError(f"{url!r} has no host or path; give both, as in sftp://me@host/path")
        if parts.password:
            raise ValueError(
                "sftp: no password in a URL, which everybody sees; give a key_file, or an agent's key"
            )
        self._host, self._port, self._user = parts.hostname, parts.port, parts.username
        self._asked, self._options = unquote(parts.path).rstrip("/"), dict(options)
        self._loop = LoopThread("sftp")
        self._connecting: asyncio.Lock | None = None
        self._connection: SSHClientConnection | None = None
        self._client: SFTPClient | None = None
        self._root = ""
        self._without_ssh = 0.0

    def entry(self, path: str) -> PathEntry:
        """See ``Backend``."""
        return self._call(self._entry(path))

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """See ``Backend``."""
        yield from self._call(self._entries(folder))

    def resolved(self, path: str) -> str:
        """See ``LinkingBackend``."""
        return self._call(self._resolved(path))

    def read(self, path: str) -> AbstractContextManager[Readable]:
        """See ``Backend``. It resumes after a broken connection."""
        return self.read_from(path, 0)

    @contextmanager
    def read_from(self, path: str, start: int) -> Iterator[Readable]:
        """See ``SeekableBackend``."""
        with closing(SftpStream(self, path, start)) as stream:
            yield stream

    @contextmanager
    def read_ranges(self, path: str, start: int, size: int) -> Iterator[Readable]:  # noqa: ARG002
        """See ``RangedBackend``.

        On a short distance, ``ssh`` reads it in a separate process.
        """
        with ExitStack() as stack:
            stream = stack.enter_context(closing(SftpStream(self, path, start)))
            reader = self._reader(stream, stack)
            if reader is None:
                yield stream
            else:
                yield stack.enter_context(closing(LargeStream(stream, reader, start, self._leave_ssh)))

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        """See ``Backend``."""
        draft = sibling_path(path, part)
        with suppress(FileNotFoundError):
            self.delete(draft)
        file = self._call(self._create(draft))
        with nothing_left(draft, lambda: self.delete(draft)):
            try:
                self._write(file, chunks)
            finally:
                self._call(file.close())
            self.rename(draft, path)

    def space(self) -> Space | None:
        """See ``SpaceBackend``. It uses OpenSSH's extension ``statvfs``."""
        with suppress(FileNotFoundError):  # the folder is not there yet
            return self._call(self._space())
        return None

    def rename(self, source: str, target: str) -> None:
        """See ``Backend``."""
        self._call(self._rename(source, target))

    def delete(self, path: str) -> None:
        """See ``Backend``."""
        self._call(self._delete(path))

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See ``Backend``."""
        if recursive:
            empty(self, path)
        self._call(self._delete_folder(path))

    def opened(self, path: str) -> OpenFile:
        """Open a file to read it."""
        return self._call(self._open(path))

    @property
    def client(self) -> "SFTPClient | None":
        """Return the client of the current connection."""
        return self._client

    def forget(self, client: "SFTPClient | None") -> None:
        """Consider a connection lost: the library may not know yet, while every call fails."""
        if client is self._client:
            self._client = None

    def begin_read(self, file: "SFTPClientFile", offset: int, length: int) -> "Future[list[bytes]]":
        """Request bytes of a file, in the largest blocks that the server gives."""
        return self._loop.submit(self._blocks(file, offset, length))

    def close_file(self, file: "SFTPClientFile") -> None:
        """Close a file if possible. With a lost connection it is gone anyway."""
        with suppress(Exception):
            self._loop.call(file.close(), CALL_LIMIT)

    def _reader(self, stream: SftpStream, stack: ExitStack) -> SshReader | None:
        """Return a program that reads the file of a stream; None if it would gain nothing."""
        login = Login(self._host, self._port, self._user, self._options, CIPHERS)
        if time.monotonic() < self._without_ssh or self._round_trip() > NEAR:
            return None
        if (command := login.command()) is None or not spare.take(1):
            return None
        stack.callback(spare.give_back, 1)
        try:
            return SshReader(command, stream.opened.at, stream.opened.version)
        except OSError as error:
            log.info("ssh cannot be started: %s", error)
            return None

    def _round_trip(self) -> float:
        """Return the round-trip time in s as the system measures it: a call also waits for this process."""
        sock = self._connection.get_extra_info("socket") if self._connection else None
        if sock is None:  # the configuration has a command that connects
            return 0.0
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, MIN_RTT + 4)
        return float(struct.unpack_from("I", info, MIN_RTT if len(info) > MIN_RTT else RTT)[0]) / 1e6

    def _leave_ssh(self) -> None:
        self._without_ssh = time.monotonic() + WITHOUT_SSH

    def _write(self, file: "SFTPClientFile", chunks: Iterable[bytes]) -> None:
        """Write chunks. Some are on their way while the next is read."""
        import asyncssh

        offset = 0
        writes: deque[Future[int]] = deque()
        for chunk in chunks:
            if len(writes) == WRITES:
                writes.popleft().result(CALL_LIMIT)
            writes.append(self._loop.submit(file.write(chunk, offset)))
            offset += len(chunk)
        for write in writes:
            write.result(CALL_LIMIT)
        with suppress(asyncssh.SFTPOpUnsupported):
            self._call(file.fsync())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        import asyncssh

        try:
            return self._loop.call(coroutine, CALL_LIMIT)
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath) as error:
            raise FileNotFoundError(str(error)) from error
        except asyncssh.SFTPPermissionDenied as error:
            raise PermissionError(str(error)) from error
        except TimeoutError as error:
            raise StorageError(f"no answer within {CALL_LIMIT:g} s") from error

    async def _entry(self, path: str) -> PathEntry:
        sftp = await self._opened()
        return _entry(await sftp.lstat(await self._at(sftp, path)))

    async def _resolved(self, path: str) -> str:
        import asyncssh

        sftp = await self._opened()
        try:
            real = str(await sftp.realpath(f"{self._root}/{path}"))
        except asyncssh.SFTPFailure:  # a link that leads to itself
            return path
        if not real.startswith(f"{self._root}/"):
            raise LinkError(f"{path} leads out of the storage")
        return real[len(self._root) + 1 :]

    async def _space(self) -> Space | None:
        import asyncssh

        sftp = await self._opened()
        try:
            disk = await sftp.statvfs(self._root or "/")
        except asyncssh.SFTPOpUnsupported:
            return None
        return Space(free=disk.bavail * disk.frsize, total=disk.blocks * disk.frsize)

    async def _entries(self, folder: str) -> list[tuple[str, PathEntry]]:
        sftp = await self._opened()
        at = await self._folder(sftp, folder)
        return [
            (str(item.filename), _entry(item.attrs))
            async for item in sftp.scandir(at)
            if item.filename not in (".", "..")
        ]

    async def _open(self, path: str) -> OpenFile:
        sftp = await self._opened()
        at = await self._at(sftp, path)
        attributes = await sftp.lstat(at)
        if (kind := _entry(attributes).kind) != "file":
            raise WrongFileError(f"{path} is not a plain file but a {kind}")
        # Without the library's own blocks, which it copies twice into one.
        file = await sftp.open(at, "rb", encoding=None, block_size=0)
        return OpenFile(file, at, (attributes.size or 0, attributes.mtime or 0))

    async def _blocks(self, file: "SFTPClientFile", offset: int, length: int) -> list[bytes]:
        """Read the blocks of a part of a file. A short block is the last."""
        size = (await self._opened()).limits.max_read_len
        begins = range(0, length, size)
        reads = [file.read(min(size, length - at), offset + at) for at in begins]
        blocks: list[Any] = await asyncio.gather(*reads)
        whole_blocks: list[bytes] = []
        for at, block in zip(begins, blocks, strict=True):
            if sum(map(len, whole_blocks)) == at:
                whole_blocks.append(block)
        return whole_blocks

    async def _create(self, path: str) -> "SFTPClientFile":
        sftp = await self._opened()
        return await sftp.open(await self._at(sftp, path, make=True), "xb", encoding=None)

    async def _rename(self, source: str, target: str) -> None:
        import asyncssh

        sftp = await self._opened()
        names = await self._at(sftp, source), await self._at(sftp, target, make=True)
        try:
            await sftp.posix_rename(*names)
        except asyncssh.SFTPOpUnsupported:
            # The protocol's own rename replaces nothing.
            with suppress(asyncssh.SFTPNoSuchFile):
                await sftp.remove(names[1])
            await sftp.rename(*names)

    async def _delete(self, path: str) -> None:
        sftp = await self._opened()
        await sftp.remove(await self._at(sftp, path))

    async def _delete_folder(self, path: str) -> None:
        sftp = await self._opened()
        await sftp.rmdir(await self._folder(sftp, path))

    async def _at(self, sftp: "SFTPClient", path: str, *, make: bool = False) -> str:
        folder, _, name = path.rpartition("/")
        if make:
            await self._make(sftp, folder)
        return f"{await self._folder(sftp, folder)}/{name}"

    async def _folder(self, sftp: "SFTPClient", folder: str) -> str:
        """Return the path of a folder. Raises LinkError if it leads through a link."""
        path = f"{self._root}/{folder}".rstrip("/")
        if await sftp.realpath(path) != path:
            raise LinkError(f"{folder} leads through a symbolic link, which is never followed")
        return path

    async def _make(self, sftp: "SFTPClient", folder: str) -> None:
        import asyncssh

        path = f"{self._root}/{folder}".rstrip("/")
        try:
            status = await sftp.lstat(path)
        except asyncssh.SFTPNoSuchFile:
            if not folder:
                await sftp.makedirs(path, exist_ok=True)
                return
            above = folder.rpartition("/")[0]
            await self._make(sftp, above)
            await self._folder(sftp, above)
            with suppress(asyncssh.SFTPFailure):  # another delivery made it
                await sftp.mkdir(path)
        else:
            # For a path below a file, a server only answers that there is no such file.
            if folder and _entry(status).kind == "file":
                raise LinkError(f"{folder} is in the way: a file, not a folder")

    async def _opened(self) -> "SFTPClient":
        """Return the client. Connect again if the connection is lost."""
        if self._connecting is None:
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._connection is None or self._connection.is_closed() or self._client is None:
                if self._connection is not None:
                    self._connection.abort()
                self._connection = await asyncio.wait_for(self._connect(), CONNECT_LIMIT)
                wide = partial(self._connection.open_session, window=WINDOW)
                self._connection.open_session = wide  # type: ignore[method-assign]
                client = await self._connection.start_sftp_client(path_errors="surrogateescape")
                # If the folder is missing this fails, and must fail again: no other folder may replace it.
                self._root = str(await client.realpath(self._asked or "/")).rstrip("/")
                self._client = client
            return self._client

    async def _connect(self) -> "SSHClientConnection":
        import asyncssh

        login: dict[str, Any] = {"encryption_algs": CIPHERS, "keepalive_interval": KEEPALIVE}
        config = Path(self._options.get("ssh_config", "~/.ssh/config")).expanduser()
        login["config"] = [str(config)] if config.exists() else ()
        login |= {name: value for name, value in (("username", self._user), ("port", self._port)) if value}
        for option, name in (("key_file", "client_keys"), ("known_hosts", "known_hosts")):
            if option in self._options:
                login[name] = str(Path(self._options[option]).expanduser())
        try:
            return await asyncssh.connect(self._host, **login)
        except asyncssh.HostKeyNotVerifiable as error:
            raise StorageError(
                f"the host key of {self._host} is not in known_hosts: add it, once checked"
            ) from error
        except asyncssh.PermissionDenied as error:
            raise StorageError(f"{self._host} accepts none of the keys") from error


def _entry(attributes: "SFTPAttrs") -> PathEntry:
    import asyncssh

    if attributes.type == asyncssh.FILEXFER_TYPE_REGULAR:
        return PathEntry("file", attributes.size)
    if attributes.type == asyncssh.FILEXFER_TYPE_DIRECTORY:
        return PathEntry("folder")
    return PathEntry("link" if attributes.type == asyncssh.FILEXFER_TYPE_SYMLINK else "other")
