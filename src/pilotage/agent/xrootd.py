"""Files at XRootD servers, by the program that a node may have for them."""

from __future__ import annotations

import errno
import io
import os
import select
import shutil
import subprocess
import tempfile
from typing import IO, cast

from .web import BLOCK, TIMEOUT

SCHEMES = frozenset({"root", "roots"})
LIMITS = {
    "XRD_CONNECTIONWINDOW": "30",
    "XRD_CONNECTIONRETRY": "1",
    "XRD_REQUESTTIMEOUT": "300",
    "XRD_STREAMTIMEOUT": "60",
}
"""Seconds, and tries, after which the program gives a server up; its own take ten minutes."""


def program() -> str:
    """The path of ``xrdcp`` on this node; empty where it has none."""
    return shutil.which("xrdcp") or ""


class XrdCopies:
    """Files below a URL of an XRootD server, with the node's own credentials."""

    def __init__(self, url: str) -> None:
        scheme, _, place = url.partition("://")
        host, _, folder = place.partition("/")
        # Two slashes behind the host: with one the path would be no absolute one.
        self._root = f"{scheme}://{host}/" + f"/{folder.strip('/')}".rstrip("/")

    def read(self, path: str) -> IO[bytes]:
        """Open a file to read it: the program writes it to a pipe."""
        return cast("IO[bytes]", _Output([program(), "-s", "-f", f"{self._root}/{path}", "-"]))

    def write(self, path: str, source: IO[bytes]) -> int | None:
        """Store all of ``source``; folders are made. The server does not say how many bytes arrived."""
        command = [program(), "-s", "-f", "-p", "-", f"{self._root}/{path}"]
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
            _check(code, errors)
        return None


class _Output(io.RawIOBase):
    """The output of a program as a file; its failure is an error, and not a shorter file."""

    def __init__(self, command: list[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, as it is read at the end
        self._process = _started(command, self._errors)
        self._pipe = cast("IO[bytes]", self._process.stdout)
        self._first = b""
        try:
            # At once: a program that cannot do it must fail before anybody relies on it.
            self._first = self.read(BLOCK)
        except BaseException:
            self.close()
            raise

    def read(self, size: int = -1) -> bytes:
        """Read up to so many bytes. Raises OSError where the program fails or says nothing for long."""
        if self._first:
            data, self._first = self._first, b""
            return data
        if not select.select([self._pipe], [], [], TIMEOUT)[0]:
            raise OSError(errno.ETIMEDOUT, f"xrdcp gave nothing for {TIMEOUT:g} s")
        data = os.read(self._pipe.fileno(), BLOCK if size < 0 else size)
        if not data:
            _check(self._process.wait(), self._errors)
        return data

    def close(self) -> None:
        """End the program where it still runs."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()
        self._errors.close()


def _started(command: list[str], errors: IO[bytes], *, fed: bool = False) -> subprocess.Popen[bytes]:
    """Start the program with a pipe from its output, or where it is ``fed`` to its input."""
    streams = (subprocess.PIPE, subprocess.DEVNULL) if fed else (subprocess.DEVNULL, subprocess.PIPE)
    environment = {**LIMITS, **os.environ}
    return subprocess.Popen(command, 0, None, *streams, errors, env=environment)


def _check(code: int, errors: IO[bytes]) -> None:
    """Raise OSError with the program's own words where it failed."""
    if code:
        errors.seek(0)
        said = " ".join(errors.read(4000).decode(errors="replace").replace("\0", "").split())
        raise OSError(f"xrdcp ended with {code}: {said[-300:]}")
