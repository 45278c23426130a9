"""Bodies of web servers' requests and answers."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from pilotage.agent.files.web_addresses import is_encoded
from pilotage.ports.moving import StorageError, WrongFileError

if TYPE_CHECKING:
    import requests

GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
REFUSED = frozenset(range(400, 500)) - {401, 407, 408, 425, 429}
"""Statuses that refuse one file. Other 4xx concern the caller or the moment."""

LARGEST_LISTING = 64 << 20
"""Most bytes of a folder's listing."""


class Body:
    """A file's chunks as the body of a request, with its length."""

    def __init__(self, chunks: Iterable[bytes], size: int) -> None:
        self._chunks, self._size = chunks, size
        self.started = False

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        self.started = True
        yield from self._chunks


def as_body(chunks: Iterable[bytes], size: int) -> Body | bytes:
    """Return the body of a file.

    Read (and so check) an empty one now, because it is sent without length.
    """
    return Body(chunks, size) if size else b"".join(chunks)


def whole_text(answer: "requests.Response") -> bytes:
    """Return the whole body of a listing. Raises StorageError if it is too long."""
    text: bytes = answer.raw.read(LARGEST_LISTING + 1, decode_content=True)
    if len(text) > LARGEST_LISTING:
        raise StorageError(f"{answer.url}: its listing is longer than {LARGEST_LISTING >> 20} MiB")
    return text


def body_size(answer: "requests.Response") -> int | None:
    """Return the size of a file in bytes by its answer's header; None without one."""
    size = answer.headers.get("Content-Length", "")
    return (
        int(size)
        if size.isdecimal() and not is_encoded(answer.headers.get("Content-Encoding"), answer.url)
        else None
    )


def without_body(method: str, url: str, headers: Mapping[str, str]) -> "requests.PreparedRequest":
    """Make a request for an encoded address, bypassing everything that requests does for typed ones."""
    import requests

    request = requests.PreparedRequest()
    request.method, request.url = method, url
    request.headers = requests.structures.CaseInsensitiveDict(headers)
    request.hooks = {"response": []}
    return request


def check_answer(answer: "requests.Response", label: str, allowed: Collection[int]) -> None:
    """Raise an error for an answer that is neither good nor ``allowed``: StorageError, or one about a
    single file."""
    if answer.status_code in GONE:
        raise FileNotFoundError(f"{label}: {answer.status_code} {answer.reason}")
    if not answer.ok and answer.status_code not in allowed:
        refused = answer.status_code in REFUSED
        raise (WrongFileError if refused else StorageError)(f"{label}: {answer.status_code} {answer.reason}")
