"""Listings of web servers' folders: WebDAV's multistatus documents, and the index pages of others.

The parsers are imported where something is read: a server without web storages does without their MiB.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from pilotage.ports.moving import Space, StorageError

from .backend import PathEntry

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

PROPFIND = (
    b'<?xml version="1.0" encoding="utf-8"?>'
    b'<propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/></prop></propfind>'
)
"""The properties that :func:`from_multistatus` reads."""

QUOTA = (
    b'<?xml version="1.0" encoding="utf-8"?>'
    b'<propfind xmlns="DAV:"><prop><quota-available-bytes/><quota-used-bytes/></prop></propfind>'
)
"""The properties that :func:`from_quota` reads."""


def from_multistatus(document: bytes, folder: str) -> Iterator[tuple[str, PathEntry]]:
    """Names and entries of a PROPFIND's answer; ``folder`` is the path of its URL, which has an empty name.

    Raises StorageError where the document is none.
    """
    for response in _parsed(document).iter("{DAV:}response"):
        name = _below(response.findtext("{DAV:}href", ""), folder)
        if name is None:
            continue
        size = response.findtext(".//{DAV:}getcontentlength", "").strip()
        if response.find(".//{DAV:}collection") is not None:
            yield name, PathEntry("folder")
        else:
            yield name, PathEntry("file", int(size) if size.isdecimal() else None)


def from_quota(document: bytes) -> Space | None:
    """The space that a PROPFIND's answer tells; None where the server knows of none.

    Negative numbers stand for "not known" and "not limited". Raises StorageError where the document is none.
    """
    root = _parsed(document)
    available, used = (
        root.findtext(f".//{{DAV:}}quota-{name}-bytes", "").strip() for name in ("available", "used")
    )
    if not available.isdecimal():
        return None
    free = int(available)
    return Space(free=free, total=free + int(used) if used.isdecimal() else None)


def _parsed(document: bytes) -> "Element":
    from xml.etree import ElementTree

    if b"<!DOCTYPE" in document or b"<!ENTITY" in document:
        raise StorageError("a WebDAV answer declares a document type, which is never read")
    try:
        return ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise StorageError(f"a WebDAV answer cannot be read: {error}") from None


def from_index(page: bytes, folder: str) -> Iterator[tuple[str, PathEntry]]:
    """Names and entries of an index page; the sizes of files are not known from it."""
    from .index_pages import links

    for link in sorted(links(page.decode(errors="replace"))):
        name = None if "?" in link else _below(urljoin(folder, link), folder)
        if name:
            yield name, PathEntry("folder") if link.endswith("/") else PathEntry("file")


def _below(link: str, folder: str) -> str | None:
    """The name of what a link leads to, if that is in the folder; empty for the folder itself."""
    path, at = unquote(urlsplit(link).path).rstrip("/"), unquote(folder).rstrip("/")
    if path == at:
        return ""
    name = path.removeprefix(f"{at}/")
    return name if name != path and "/" not in name else None
