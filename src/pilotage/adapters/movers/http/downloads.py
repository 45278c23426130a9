"""HTTP downloads that resume after a broken connection."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from pilotage.agent.files.web_addresses import is_encoded
from pilotage.ports.moving import WrongFileError

if TYPE_CHECKING:
    import requests

MOST_RESUMES = 5
"""Broken connections in a row, without a byte between them, before a download fails."""

PAUSE = 0.2
"""Seconds before a broken connection is resumed. Each further wait is twice as long."""

SETTLED = timedelta(minutes=1)
"""Age of a file at which its modification time identifies its version."""

SKIPPED = 1 << 20
"""Bytes to read at a time while skipping."""

Ask = Callable[[Mapping[str, str]], "AbstractContextManager[requests.Response]"]
"""Requests the file with further headers."""


class Download:
    """The body of a file as a stream, from the byte ``start`` on, up to ``end`` if given.

    If it breaks off, it requests the rest, provided that the file is the same. With ``version``, it must be
    that version.
    """

    def __init__(self, ask: Ask, start: int = 0, end: int | None = None, version: str = "") -> None:
        self._ask = ask
        self._open = ExitStack()
        self._offset, self._end, self._breaks = start, end, 0
        self._version = version

    def __enter__(self) -> Self:
        headers = self._range_headers() if self._offset or self._end is not None else {}
        self._answer = self._open.enter_context(self._ask(headers))
        goes_on = self._goes_on(self._answer)
        if self.partial and is_encoded(self._answer.headers.get("Content-Encoding"), self._answer.url):
            self._open.close()
            encoding = self._answer.headers["Content-Encoding"]
            raise WrongFileError(
                f"{self._answer.url} comes in parts that the server compresses ({encoding}), "
                "though asked not to: its operator can switch that off for these files"
            )
        if self._version and not goes_on:
            self._open.close()
            raise WrongFileError(
                f"{self._answer.url} changed while it was read, or is given in parts no more"
            )
        self._version = self._version or _version(self._answer)
        if self._offset and not goes_on:
            self._skip(self._offset)
        return self

    @property
    def ranged(self) -> tuple[int, str] | None:
        """Return bytes and version of the file if the server gave just the requested part.

        Return None also if the server does not identify versions: two parts might then belong to different
        ones.
        """
        total = str(self._answer.headers.get("Content-Range", "")).rpartition("/")[2]
        version = _strong(self._answer)
        return (
            (int(total), version) if self._goes_on(self._answer) and total.isdecimal() and version else None
        )

    @property
    def partial(self) -> bool:
        """Return whether the answer is a part of the file."""
        return bool(self._answer.status_code == HTTPStatus.PARTIAL_CONTENT)

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def url(self) -> str:
        """Return the final address of the file."""
        return str(self._answer.url)

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        from urllib3.exceptions import HTTPError

        while True:
            try:
                data = self._read(size)
            except HTTPError as error:
                self._resume(error)
            else:
                self._offset += len(data)
                self._breaks = 0 if data else self._breaks
                return data

    def _read(self, size: int) -> bytes:
        data: bytes = self._answer.raw.read(
            size, decode_content=is_encoded(self._answer.headers.get("Content-Encoding"), self._answer.url)
        )
        return data

    def _skip(self, count: int) -> None:
        """Read and drop unwanted bytes from a server without ranges."""
        try:
            while count and (data := self._read(min(count, SKIPPED))):
                count -= len(data)
        except BaseException:
            self._open.close()
            raise

    def _resume(self, fault: Exception) -> None:
        """Request the rest of the file. Raises the fault if the server cannot give just that."""
        self._breaks += 1
        if not self._version or self._breaks > MOST_RESUMES:
            raise fault
        time.sleep(PAUSE * 2**self._breaks)
        self._open.close()
        answer = self._open.enter_context(self._ask(self._range_headers()))
        if not self._goes_on(answer):
            raise fault
        self._answer = answer

    def _range_headers(self) -> dict[str, str]:
        """Return headers that request the remaining bytes of the same version."""
        last = "" if self._end is None else self._end - 1
        same = {"If-Range": self._version} if self._version else {}
        return {"Range": f"bytes={self._offset}-{last}", **same}

    def _goes_on(self, answer: "requests.Response") -> bool:
        begins = answer.headers.get("Content-Range", "").startswith(f"bytes {self._offset}-")
        return begins and answer.status_code == HTTPStatus.PARTIAL_CONTENT


def _version(answer: "requests.Response") -> str:
    """Return the validator of this version of a file; empty if there is none, or if the server gives no
    ranges."""
    tag = str(answer.headers.get("ETag", ""))
    if answer.status_code != HTTPStatus.PARTIAL_CONTENT and answer.headers.get("Accept-Ranges") != "bytes":
        return ""
    if is_encoded(answer.headers.get("Content-Encoding"), answer.url):
        return ""
    # With a weak tag, two versions mean the same, but their bytes may differ.
    return str(answer.headers.get("Last-Modified", "")) if tag.startswith("W/") or not tag else tag


def _strong(answer: "requests.Response") -> str:
    """Return a validator that distinguishes any two versions; empty if there is none.

    A modification time qualifies when it is a minute old, because a file may change twice within one second.
    """
    version = _version(answer)
    if version.startswith('"'):
        return version
    try:
        changed, now = (
            parsedate_to_datetime(answer.headers.get(name, "")) for name in ("Last-Modified", "Date")
        )
    except ValueError:
        return ""
    return version if now - changed >= SETTLED else ""


def plain_file(download: Download, path: str) -> Download:
    """Return a download if it is a plain file. Raises WrongFileError for a listing of a folder."""
    if urlsplit(download.url).path.endswith("/"):
        raise WrongFileError(f"{path} is not a plain file but a folder")
    return download
