"""Third-party copies over HTTP: a web server takes a file from another, or gives it to another.

The requests are WebDAV's COPY with the additional headers of WLCG's HTTP-TPC. Within one server they are
plain WebDAV. The servers authenticate to each other with the headers of the storages' options, including the
token.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from pilotage.adapters.movers.copies.third_party import CannotFetch
from pilotage.ports.moving import Progress, StorageError

if TYPE_CHECKING:
    import requests

REFUSED_FOR = 600.0
"""Seconds before a server that refused a way of copying is asked for it again."""

FORWARDED = "TransferHeader"
"""Prefix of headers that a server should pass on to the other, without this prefix."""

CANNOT = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_IMPLEMENTED,
        HTTPStatus.BAD_GATEWAY,
    }
)
"""Statuses of servers that lack COPY, or do not copy from or to others."""

LONGEST_REPORT = 64 << 20
"""Most bytes of a server's progress report for one copy."""


class WebServer(Protocol):
    """A storage behind HTTP, as copies need it."""

    @property
    def origin(self) -> str:
        """Return scheme, host and port."""

    def url(self, path: str) -> str:
        """Return the address of a file."""

    def own_headers(self) -> Mapping[str, str]:
        """Return the headers of the storage's own options, including the token."""

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str], allowed: Collection[int]
    ) -> "AbstractContextManager[requests.Response]":
        """Make a request. Answers that are neither good nor ``allowed`` raise StorageError."""


class HttpCopies:
    """Copies to one web server from others. It remembers servers that cannot copy."""

    def __init__(self, target: WebServer) -> None:
        self._target = target
        self._refused: dict[tuple[str, str], float] = {}

    def fetch(self, source: WebServer, path: str, draft: str, progress: Progress) -> None:
        """Copy a file from another web server, or from the same one, to this one.

        The target takes it if it can, else the source gives it. Raises CannotFetch if neither can.
        """
        for mode in ("give",) if source.origin == self._target.origin else ("take", "give"):
            if self._refused.get((source.origin, mode), 0.0) > time.monotonic():
                continue
            server, at = (source, path) if mode == "give" else (self._target, draft)
            with server.request(
                "COPY", at, headers=self._headers(mode, source, path, draft), allowed=CANNOT
            ) as answer:
                if answer.status_code not in CANNOT:
                    _follow(answer, progress)
                    return
            self._refused[source.origin, mode] = time.monotonic() + REFUSED_FOR
        raise CannotFetch("neither web server takes or gives files by COPY")

    def _headers(self, mode: str, source: WebServer, path: str, draft: str) -> Mapping[str, str]:
        target = self._target
        address = {"Destination": target.url(draft)} if mode == "give" else {"Source": source.url(path)}
        if source.origin == target.origin:
            return {**address, "Overwrite": "T"}
        peer = target if mode == "give" else source
        forwarded = {f"{FORWARDED}{name}": value for name, value in peer.own_headers().items()}
        return {
            **address,
            **forwarded,
            "Overwrite": "T",
            "Credential": "none",
            "RequireChecksumVerification": "false",
        }


def _follow(answer: "requests.Response", progress: Progress) -> None:
    """Read the server's progress report until the copy is done. Raises StorageError if it failed.

    Each stripe of a copy counts its own bytes. A server that is done quickly sends no report.
    """
    stripe, moved = "", {}
    for line in _lines(answer):
        name, _, value = line.partition(":")
        match name.strip().lower():
            case "stripe index":
                stripe = value.strip()
            case "stripe bytes transferred" if value.strip().isdecimal():
                moved[stripe] = int(value)
                progress(sum(moved.values()))
            case "success":
                return
            case "failure" | "aborted":
                raise StorageError(f"{answer.url}: the copy failed: {value.strip()[:500]}")
    if answer.status_code == HTTPStatus.ACCEPTED:
        raise StorageError(f"{answer.url}: the copy ended, and the server did not confirm it")


def _lines(answer: "requests.Response") -> Iterator[str]:
    size, rest = 0, ""
    for chunk in answer.iter_content(None):
        size += len(chunk)
        if size > LONGEST_REPORT:
            raise StorageError(f"{answer.url}: says more than {LONGEST_REPORT >> 20} MiB about one copy")
        *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
        yield from lines
    yield rest
