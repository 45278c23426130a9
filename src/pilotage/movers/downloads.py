"""Downloads by HTTP that go on where their connection broke."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import requests

MOST_RESUMES = 5
"""Broken connections in a row, without a byte between them, before a download fails."""

PAUSE = 0.2
"""Seconds before a broken connection is taken up; twice as long each time."""

SKIPPED = 1 << 20
"""Bytes that are read at a time where they are not wanted."""

Ask = Callable[[Mapping[str, str]], "AbstractContextManager[requests.Response]"]
"""Requests the file with further headers."""


class Download:
    """The body of a file as a stream, from the byte ``start`` on.

    Where it breaks it is asked for again, if the file is the same.
    """

    def __init__(self, ask: Ask, start: int = 0) -> None:
        self._ask = ask
        self._open = ExitStack()
        self._offset, self._breaks = start, 0

    def __enter__(self) -> Self:
        headers = {"Range": f"bytes={self._offset}-"} if self._offset else {}
        self._answer = self._open.enter_context(self._ask(headers))
        self._version = _version(self._answer)
        if self._offset and not self._goes_on(self._answer):
            self._skip(self._offset)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def url(self) -> str:
        """The address that the file was found at in the end."""
        return str(self._answer.url)

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        from urllib3.exceptions import HTTPError

        while True:
            try:
                data: bytes = self._answer.raw.read(size)
            except HTTPError as error:
                self._resume(error)
            else:
                self._offset += len(data)
                self._breaks = 0 if data else self._breaks
                return data

    def _skip(self, left: int) -> None:
        """Read what is not wanted from a server that gives no ranges."""
        try:
            while left and (data := self._answer.raw.read(min(left, SKIPPED))):
                left -= len(data)
        except BaseException:
            self._open.close()
            raise

    def _resume(self, fault: Exception) -> None:
        """Ask for the rest of the file. Raises the fault where the server cannot give just that."""
        self._breaks += 1
        if not self._version or self._breaks > MOST_RESUMES:
            raise fault
        time.sleep(PAUSE * 2**self._breaks)
        self._open.close()
        headers = {"Range": f"bytes={self._offset}-", "If-Range": self._version}
        answer = self._open.enter_context(self._ask(headers))
        if not self._goes_on(answer):
            raise fault
        self._answer = answer

    def _goes_on(self, answer: "requests.Response") -> bool:
        begins = answer.headers.get("Content-Range", "").startswith(f"bytes {self._offset}-")
        return begins and answer.status_code == HTTPStatus.PARTIAL_CONTENT


def _version(answer: "requests.Response") -> str:
    """The validator of this version of a file; empty where there is none, or the server gives no ranges."""
    tag = str(answer.headers.get("ETag", ""))
    if answer.headers.get("Accept-Ranges") != "bytes":
        return ""
    # A weak tag says that two versions mean the same, not that they are the same bytes.
    return str(answer.headers.get("Last-Modified", "")) if tag.startswith("W/") or not tag else tag
