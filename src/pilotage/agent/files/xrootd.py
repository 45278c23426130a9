"""Files at XRootD servers, through a program of the node: xrdcp or gfal."""

from __future__ import annotations

import errno
import io
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO, cast

from .web import BLOCK, TIMEOUT

SCHEMES = frozenset({"root", "roots"})
LIMITS = {
    "XRD_CONNECTIONWINDOW": "30",
    "XRD_CONNECTIONRETRY": "1",
    "XRD_REQUESTTIMEOUT": "300",
    "XRD_STREAMTIMEOUT": "60",
    "XRD_METALINKPROCESSING": "0",
}
"""Seconds and tries after which the program gives up on a server; its defaults take ten minutes. The last
one stops it from reading any file as a list of addresses."""

DAY = "86400"
"""Time limit in s for gfal-cat, whose default is half an hour. The pipe notices a stalled read."""


def access_methods(url: str) -> dict[str, XrdCopies | GfalCopies]:
    """Return the ways to files below a URL of an XRootD server, by the names of this node's programs."""
    if url.partition("://")[0] not in SCHEMES:
        return {}
    methods: dict[str, XrdCopies | GfalCopies] = {}
    if program := shutil.which("xrdcp"):
        methods["xrdcp"] = XrdCopies(program, url)
    reader, writer = shutil.which("gfal-cat"), shutil.which("gfal-copy")
    if reader and writer:
        methods["gfal"] = GfalCopies(reader, writer, url)
    return methods


def _root(url: str) -> str:
    scheme, _, place = url.partition("://")
    host, _, folder = place.partition("/")
    # Two slashes after the host: with one, the path would not be absolute.
    return f"{scheme}://{host}/" + f"/{folder.strip('/')}".rstrip("/")


def _address(root: str, path: str) -> str:
    """Return the address of a file. The protocol has no escapes: a ``?`` would end the name."""
    if "?" in path:
        raise FileNotFoundError(errno.ENOENT, "names at XRootD servers hold no ?", path)
    return f"{root}/{path}"


class XrdCopies:
    """Files below a URL of an XRootD server, through ``xrdcp`` with the node's own credentials."""

    def __init__(self, program: str, url: str) -> None:
        self._program, self._root = program, _root(url)

    def read(self, path: str) -> IO[bytes]:
        """Open a file to read it: the program writes it to a pipe."""
        return cast("IO[bytes]", _Output([self._program, "-s", "-f", _address(self._root, path), "-"]))

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``, making folders as needed.

        Return None, because the server does not say how many bytes arrived.
        """
        command = [self._program, "-s", "-f", "-p", "-", _address(self._root, path)]
        with tempfile.TemporaryFile() as errors:
            process = _started(command, errors, fed=True)
            try:
                with cast("IO[bytes]", process.stdin) as pipe:
                    shutil.copyfileobj(source, pipe, BLOCK)
            except BrokenPipeError:
                process.wait()
            except BaseException:
                process.kill()
                raise
            finally:
                code = process.wait()
            _check(command, code, errors)
        return None


class GfalCopies:
    """Files below a URL of an XRootD server, through gfal's programs with the node's own credentials."""

    def __init__(self, reader: str, writer: str, url: str) -> None:
        self._reader, self._writer, self._root = reader, writer, _root(url)

    def read(self, path: str) -> IO[bytes]:
        """Open a file to read it: the program writes it to a pipe."""
        return cast("IO[bytes]", _Output([self._reader, "--bytes", "-t", DAY, _address(self._root, path)]))

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``, making folders as needed.

        Return None, because the server does not say how many bytes arrived.
        """
        # Copy into a file first: gfal-save reads standard input as text, and gfal-copy takes no pipe.
        with tempfile.NamedTemporaryFile() as copy, tempfile.TemporaryFile() as errors:
            shutil.copyfileobj(source, copy, BLOCK)
            copy.flush()
            limit = str(_seconds(copy.tell()))
            command = [self._writer, "-f", "-p", "-t", limit, "-T", limit]
            process = _started(
                [*command, f"file://{copy.name}", _address(self._root, path)], errors, fed=True
            )
            try:
                process.communicate()
            except BaseException:
                process.kill()
                process.wait()
                raise
            _check(command, process.returncode, errors)
        return None


def _seconds(size: int) -> int:
    """Return the time limit in s for copying ``size`` bytes: 1 MB/s, and at least ``TIMEOUT``."""
    return int(TIMEOUT + size / 1e6)


class _Output(io.RawIOBase):
    """The output of a program as a file. A failure raises an error, so a file is never silently short."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, as it is read at the end
        self._process = _started(command, self._errors)
        self._pipe = cast("IO[bytes]", self._process.stdout)
        self._first = b""
        try:
            # Read now: a program that cannot do it must fail before the caller uses it.
            self._first = self.read(BLOCK)
        except BaseException:
            self.close()
            raise

    def read(self, size: int = -1) -> bytes:
        """Read up to that many bytes. Raises OSError if the program fails or is silent for long."""
        if self._first:
            data, self._first = self._first, b""
            return data
        if not select.select([self._pipe], [], [], TIMEOUT)[0]:
            raise OSError(errno.ETIMEDOUT, f"{_name(self._command)} gave nothing for {TIMEOUT:g} s")
        data = os.read(self._pipe.fileno(), BLOCK if size < 0 else size)
        if not data:
            _check(self._command, self._process.wait(), self._errors)
        return data

    def close(self) -> None:
        """End the program if it still runs."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()
        self._errors.close()


def _started(command: list[str], errors: IO[bytes], *, fed: bool = False) -> subprocess.Popen[bytes]:
    """Start the program with a pipe from its output, or to its input if it is ``fed``."""
    streams = (subprocess.PIPE, subprocess.DEVNULL) if fed else (subprocess.DEVNULL, subprocess.PIPE)
    environment = {**LIMITS, **os.environ}
    return subprocess.Popen(command, 0, None, *streams, errors, env=environment)


def _name(command: list[str]) -> str:
    return Path(command[0]).name


def _check(command: list[str], code: int, errors: IO[bytes]) -> None:
    """Raise OSError with the program's own message if it failed."""
    if code:
        errors.seek(0)
        message = " ".join(errors.read(4000).decode(errors="replace").replace("\0", "").split())
        raise OSError(f"{_name(command)} ended with {code}: {message[-300:]}")
