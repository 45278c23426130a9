"""Files of an SSH server, read through the system's own ``ssh``, which decrypts in a separate process."""

import fcntl
import os
import select
import shutil
import struct
import subprocess
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

AHEAD = 4 << 20
"""Bytes requested ahead. The program has a window of 2 MiB."""

PIPE = 1 << 20
"""Size in bytes of the pipe from the program: with the usual 64 kB both sides wait for each other more."""

SILENCE = 300.0
"""Seconds without a byte after which the program is given up."""

SMALL_BLOCK = 32 << 10
"""Bytes that every server gives at once. It may announce more."""

MOST_MESSAGE = 256 << 10
"""Most bytes of a message that is not a block of a file, and most bytes read of a block at once."""

INIT, VERSION, OPEN, READ, FSTAT, REALPATH = 1, 2, 3, 5, 8, 16
HANDLE, DATA, NAME, ATTRIBUTES, EXTENDED, EXTENDED_REPLY = 102, 103, 104, 105, 200, 201
FOR_READING = 1
HAS_SIZE, HAS_OWNER, HAS_MODE, HAS_TIMES = 1, 2, 4, 8

NEVER = ["-q", "-T", "-a", "-x", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oUpdateHostKeys=no"]
NEVER += ["-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oControlMaster=no", "-oControlPath=none"]
"""It never prompts, accepts no new host, forwards nothing, and does not share connections."""


class SshReaderError(Exception):
    """The program cannot read the file. The caller reads it in another way."""


@dataclass(frozen=True)
class Login:
    """The host of an account, and the options of its storage."""

    host: str
    port: int | None
    user: str | None
    options: Mapping[str, Any]
    ciphers: str

    def command(self) -> list[str] | None:
        """Return the command that starts SFTP there, with the same files as our own library; None without
        ``ssh``."""
        if (program := shutil.which("ssh")) is None:
            return None
        config = self._file("ssh_config", "~/.ssh/config")
        command = [program, "-F", str(config) if config.exists() else "none", *NEVER]
        command += ["-oGlobalKnownHostsFile=none", f"-oCiphers={self.ciphers}", "-oConnectTimeout=30"]
        command += ["-oServerAliveInterval=15", "-oServerAliveCountMax=3"]
        if "known_hosts" in self.options:
            command += [f'-oUserKnownHostsFile="{_literal(self._file("known_hosts"))}"']
        if "key_file" in self.options:
            command += ["-oIdentitiesOnly=yes", "-i", _literal(self._file("key_file"))]
        command += [f"-p{self.port}"] if self.port else []
        command += ["-l", self.user] if self.user else []
        return [*command, "-s", "--", self.host, "sftp"]

    def _file(self, option: str, otherwise: str = "") -> Path:
        return Path(self.options.get(option, otherwise)).expanduser()


class SshReader:
    """One plain file that a separate program reads. It connects and opens the file in the background.

    ``version`` is the expected size in bytes and modification time in s.
    """

    def __init__(self, command: list[str], path: str, version: tuple[int, float]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)
        assert self._process.stdin
        assert self._process.stdout
        self._in: IO[bytes] = self._process.stdin
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        with suppress(OSError):  # a user's pipes have only so many pages
            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, PIPE)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._path, self._version = path, version
        self._buffer = memoryview(bytearray(MOST_MESSAGE))
        self._handle, self._block, self._number = b"", SMALL_BLOCK, 0
        self._asked: deque[tuple[int, int]] = deque()
        self._next = self._left = 0
        self._error: Exception | None = None
        self._opening = threading.Thread(target=self._try_to_open, name="ssh-reader", daemon=True)
        self._opening.start()

    def opened(self) -> bool:
        """Return whether the file is open yet. Raises SshReaderError if it cannot be opened."""
        if self._opening.is_alive():
            return False
        if self._error is not None:
            raise SshReaderError(f"{self._error or type(self._error).__name__}{self._end_message()}")
        return True

    def begin(self, offset: int) -> None:
        """Start reading at this byte."""
        self._next = offset
        with suppress(OSError):  # the next read reports its end
            self._ask()

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the expected end. Raises SshReaderError."""
        try:
            if not self._left and not self._begin_block():
                return b""
            data = self._exactly(min(size, self._left, MOST_MESSAGE))
        except (OSError, SshReaderError) as error:
            raise SshReaderError(f"{error}{self._end_message()}") from error
        self._left -= len(data)
        return data

    def close(self) -> None:
        """End the program."""
        self._process.terminate()
        self._opening.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        self._process.wait()

    def _try_to_open(self) -> None:
        try:
            self._open()
        except (OSError, SshReaderError, struct.error) as error:
            self._error = error

    def _open(self) -> None:
        """Open the file if no link leads to it and it is the expected version."""
        path = _text(os.fsencode(self._path))
        self._in.write(_message(INIT, struct.pack(">I", 3)))
        self._answer(VERSION)
        limits = self._send(EXTENDED, _text(b"limits@openssh.com"))
        real = self._send(REALPATH, path)
        opened = self._send(OPEN, path, struct.pack(">II", FOR_READING, 0))
        kind, content = self._message(limits)
        if kind == EXTENDED_REPLY:
            self._block = min(struct.unpack_from(">QQ", content)[1] or SMALL_BLOCK, AHEAD)
        if _first_text(self._answer(NAME, real)[4:]) != os.fsencode(self._path):
            raise SshReaderError("a link leads there")
        self._handle = _text(_first_text(self._answer(HANDLE, opened)))
        version = _version(self._answer(ATTRIBUTES, self._send(FSTAT, self._handle)))
        if version != (self._version[0], int(self._version[1])):
            raise SshReaderError("it has changed")

    def _ask(self) -> None:
        """Send as many requests as allowed."""
        requests = []
        while len(self._asked) * self._block < AHEAD and self._next < self._version[0]:
            length = min(self._block, self._version[0] - self._next)
            self._number += 1
            block = struct.pack(">QI", self._next, length)
            requests.append(_message(READ, struct.pack(">I", self._number), self._handle, block))
            self._asked.append((self._number, length))
            self._next += length
        if requests:
            self._in.write(b"".join(requests))

    def _begin_block(self) -> bool:
        """Go on to the next block. Raises SshReaderError unless it arrives in order and complete."""
        self._ask()
        if not self._asked:
            return False
        number, length = self._asked.popleft()
        _, kind, answered = struct.unpack(">IBI", self._exactly(9))
        if (kind, answered) != (DATA, number) or struct.unpack(">I", self._exactly(4))[0] != length:
            raise SshReaderError("the server did not give the block that was asked for")
        self._left = length
        return True

    def _send(self, kind: int, *parts: bytes) -> int:
        self._number += 1
        self._in.write(_message(kind, struct.pack(">I", self._number), *parts))
        return self._number

    def _answer(self, kind: int, number: int | None = None) -> bytes:
        answer_kind, content = self._message(number)
        if answer_kind != kind:
            raise SshReaderError(f"the server answered {answer_kind}, not {kind}")
        return content

    def _message(self, number: int | None) -> tuple[int, bytes]:
        """Return kind and content of the next message, which must answer the call with this number."""
        length, kind = struct.unpack(">IB", self._exactly(5))
        if length > MOST_MESSAGE:
            raise SshReaderError(f"a message of {length} bytes")
        content = self._exactly(length - 1) if length > 1 else b""
        if number is None:
            return kind, content
        if struct.unpack_from(">I", content)[0] != number:
            raise SshReaderError("the server does not answer in turn")
        return kind, content[4:]

    def _exactly(self, size: int) -> bytes:
        filled = 0
        while filled < size:
            try:
                received = os.readv(self._out, [self._buffer[filled:size]])
            except BlockingIOError:
                if not self._poll.poll(SILENCE * 1000):
                    raise SshReaderError(f"no byte within {SILENCE:g} s") from None
                continue
            if not received:
                raise SshReaderError("it has ended")
            filled += received
        return bytes(self._buffer[:size])

    def _end_message(self) -> str:
        """Return the program's message about its end."""
        assert self._process.stderr
        os.set_blocking(self._process.stderr.fileno(), False)
        message = (self._process.stderr.read(500) or b"").decode(errors="replace").strip()
        return f": {message}" if message else ""


def _literal(path: Path) -> str:
    """Return a path for the program's options, with per cent signs escaped."""
    return str(path).replace("%", "%%")


def _message(kind: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">IB", len(content) + 1, kind) + content


def _text(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _first_text(message: bytes) -> bytes:
    return message[4 : 4 + struct.unpack_from(">I", message)[0]]


def _version(attributes: bytes) -> tuple[int, int]:
    """Return bytes and modification time from a file's attributes."""
    flags = struct.unpack_from(">I", attributes)[0]
    if not flags & HAS_SIZE or not flags & HAS_TIMES:
        raise SshReaderError("the server does not tell a file's bytes and times")
    times = 12 + (8 if flags & HAS_OWNER else 0) + (4 if flags & HAS_MODE else 0)
    return struct.unpack_from(">Q", attributes, 4)[0], struct.unpack_from(">I", attributes, times + 4)[0]
