"""Files over SFTP as streams: over their storage's connection, and large ones through ``ssh``."""

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pilotage.adapters.movers.sftp.ssh_reader import SshReader, SshReaderError
from pilotage.ports.moving import WrongFileError

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SFTPClientFile

log = logging.getLogger(__name__)

CALL_LIMIT = 300.0
"""Time limit in s of one call."""

AHEAD, READS = 2 << 20, 3
"""Bytes per request, and concurrent requests while earlier ones are processed."""

BEYOND = 16 << 10
"""Bytes requested beyond the expected end, to check that it is the end."""

MOST_RESUMES = 5
"""Broken connections in a row, without a byte between them, before reading a file fails."""

PAUSE = 0.1
"""Seconds before a broken connection is resumed. Each further wait is twice as long."""


class OpenFile(NamedTuple):
    """An opened file: its whole path, and its version (bytes and modification time)."""

    file: "SFTPClientFile"
    at: str
    version: tuple[int, float]


class Connection(Protocol):
    """A storage's connection, which is made again if it is lost."""

    @property
    def client(self) -> "SFTPClient | None":
        """Return the client of the current connection."""

    def opened(self, path: str) -> OpenFile:
        """Open a file to read it."""

    def begin_read(self, file: "SFTPClientFile", offset: int, length: int) -> "Future[list[bytes]]":
        """Request bytes of a file, in the largest blocks that the server gives."""

    def close_file(self, file: "SFTPClientFile") -> None:
        """Close a file if possible."""

    def forget(self, client: "SFTPClient | None") -> None:
        """Consider a connection lost."""


class SftpStream:
    """A file that is read from the byte ``start`` on, with the next bytes on their way."""

    def __init__(self, backend: Connection, path: str, start: int) -> None:
        self._backend, self._path = backend, path
        self.opened = backend.opened(path)
        self._client = backend.client
        self._until: int | None = None
        self._offset, self._broken = start, 0
        self._blocks: deque[bytes] = deque()
        self._asked: deque[tuple[int, Future[list[bytes]]]] = deque()
        self._ask()

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        if not self._blocks:
            self._blocks.extend(self._next())
        block = self._blocks.popleft() if self._blocks else b""
        if len(block) > size:
            self._blocks.appendleft(block[size:])
        return block[:size]

    def close(self) -> None:
        """Close the file."""
        self._forget()
        self._backend.close_file(self.opened.file)

    def end_soon(self) -> int:
        """Request nothing more. Return the byte after the pending answers."""
        self._until = self._offset + sum(length for length, _ in self._asked)
        return self._until

    def go_on(self, offset: int) -> None:
        """Continue reading from there after all."""
        self._offset, self._until = offset, None

    def _next(self) -> list[bytes]:
        import asyncssh

        lost = (OSError, asyncssh.ConnectionLost, asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)
        while True:
            try:
                if self._broken:
                    self._go_on()
                self._ask()
                if not self._asked:
                    return []
                length, request = self._asked.popleft()
                blocks = request.result(CALL_LIMIT)
            except FileNotFoundError:
                raise
            except lost:
                self._broken += 1
                self._backend.forget(self._client)
                if self._broken > MOST_RESUMES:
                    raise
                time.sleep(PAUSE * 2**self._broken)
                continue
            self._broken = 0
            size = sum(map(len, blocks))
            self._offset += size
            if size < length:
                self._forget()  # the other requests are beyond the end, or behind a gap
            if size:
                self._ask()
            return blocks

    def _ask(self) -> None:
        """Send as many requests as allowed."""
        begin = self._offset + sum(length for length, _ in self._asked)
        size = self.opened.version[0] if self._until is None else self._until
        while len(self._asked) < READS and (begin < size or (self._until is None and not self._asked)):
            length = min(AHEAD, size - begin) if begin < size else BEYOND
            self._asked.append((length, self._backend.begin_read(self.opened.file, begin, length)))
            begin += length

    def _forget(self) -> None:
        """Drop the pending answers."""
        while self._asked:
            self._asked.pop()[1].cancel()

    def _go_on(self) -> None:
        """Request the rest over another connection. Raises WrongFileError if the file has changed."""
        self._forget()
        version, self.opened = self.opened.version, self._backend.opened(self._path)
        self._client = self._backend.client
        if version != self.opened.version:
            raise WrongFileError(f"{self._path} changed while it was read")


class LargeStream:
    """A file that ``ssh`` reads as soon as it has connected. Until then the storage's connection does.

    If ``ssh`` ends early, the connection continues: only it reports errors and the end of the file.
    """

    def __init__(self, stream: SftpStream, ssh: SshReader, start: int, failed: Callable[[], None]) -> None:
        self._stream, self._offset, self._failed = stream, start, failed
        self._ssh: SshReader | None = ssh
        self._from: int | None = None
        self._changed_over = False

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        data = b""
        if self._ssh:
            try:
                data = self._read(self._ssh, size)
            except SshReaderError as error:
                log.info("%s is read on without ssh: %s", self._stream.opened.at, error)
                self._failed()
            if not data:
                self._leave(self._ssh)
        data = data or self._stream.read(size)
        self._offset += len(data)
        return data

    def close(self) -> None:
        """End the program. The stream stays open."""
        if self._ssh:
            self._ssh.close()

    def _read(self, ssh: SshReader, size: int) -> bytes:
        if self._from is None and ssh.opened():
            self._from = self._stream.end_soon()
            ssh.begin(self._from)
        if not self._changed_over:
            data = self._stream.read(size)
            if data or self._from is None:
                return data
            self._changed_over = True
            if self._offset != self._from:
                raise SshReaderError("the file has become shorter")
        return ssh.read(size)

    def _leave(self, ssh: SshReader) -> None:
        """Continue as before."""
        ssh.close()
        self._ssh = None
        if self._changed_over:
            self._stream.go_on(self._offset)
