"""Listings of web servers' folders: WebDAV's multistatus documents, and the index pages of others.

The parsers are imported at the first use: a server without web storages saves their MiB.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urljoin, urlsplit

from pilotage.adapters.movers.http.http_bodies import GONE
from pilotage.adapters.movers.storages.backend import PathEntry
from pilotage.ports.moving import StorageError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

NO_WEBDAV = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)
"""Statuses of servers that lack a method of WebDAV."""

_NO_ADDRESS = re.compile(r"[^\x21-\x7e]|[\"<>\\^`{|}#?]|%(?![0-9A-Fa-f]{2})")
"""A part that no escaped address has."""

PROPFIND = (
    b'<?xml version="1.0" encoding="utf-8"?>'
    b'<propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/></prop></propfind>'
)
"""The properties that ``from_multistatus`` reads."""


def from_multistatus(
    document: bytes, folder: str, *, may_be_raw: bool = False
) -> Iterator[tuple[str, PathEntry]]:
    """Yield names and entries from a PROPFIND's answer. ``folder`` is the path of its URL; its own entry has
    an empty name.

    Some servers do not escape addresses. With ``may_be_raw``, one invalid address means that all need
    escaping. Raises StorageError for an invalid document, and FileNotFoundError if the path is missing.
    """
    responses = list(parsed(document).iter("{DAV:}response"))
    links = [response.findtext("{DAV:}href", "") for response in responses]
    if may_be_raw and any(map(_NO_ADDRESS.search, links)):
        links = [quote(link) for link in links]
    folder = _listed_folder(links, folder)
    for response, link in zip(responses, links, strict=True):
        name = _below(link, folder)
        if name is None:
            continue
        if _status(response) in GONE:
            if not name:
                raise FileNotFoundError(f"{folder}: the server lists it as missing")
            continue
        properties = [
            part for part in response.iter("{DAV:}propstat") if _status(part) in (None, HTTPStatus.OK)
        ]
        sizes = (part.findtext(".//{DAV:}getcontentlength", "").strip() for part in properties)
        size = next(filter(None, sizes), "")
        if any(part.find(".//{DAV:}collection") is not None for part in properties):
            yield name, PathEntry("folder")
        else:
            yield name, PathEntry("file", int(size) if size.isdecimal() else None)


def _listed_folder(links: list[str], folder: str) -> str:
    """Return the folder's path as the server writes it, which a proxy before it may have rewritten."""
    if not links or any(_below(link, folder) is not None for link in links):
        return folder
    shortest = urlsplit(min(links, key=len)).path
    return shortest if all(_below(link, shortest) is not None for link in links) else folder


def _status(part: "Element") -> int | None:
    """Return the status of a part of an answer; None if it has none."""
    words = part.findtext("{DAV:}status", "").split()
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() else None


def parsed(document: bytes) -> "Element":
    """Parse an answer of WebDAV. Raises StorageError if it is invalid."""
    from xml.etree import ElementTree

    if b"<!DOCTYPE" in document or b"<!ENTITY" in document:
        raise StorageError("a WebDAV answer declares a document type, which is never read")
    try:
        return ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise StorageError(f"a WebDAV answer cannot be read: {error}") from None


def from_index(page: bytes, folder: str) -> Iterator[tuple[str, PathEntry]]:
    """Yield names and entries of an index page. It gives no sizes of files."""
    from pilotage.adapters.movers.http.index_pages import links  # few servers need the parser

    for link in sorted(links(page.decode(errors="replace"))):
        name = None if "?" in link else _below(urljoin(folder, link), folder)
        if name:
            yield name, PathEntry("folder") if link.endswith("/") else PathEntry("file")


def _below(link: str, folder: str) -> str | None:
    """Return the name behind a link if it is in the folder; empty for the folder itself."""
    # Keep bytes that are no UTF-8: other letters would name another file.
    path, at = (unquote(text, errors="surrogateescape").rstrip("/") for text in (urlsplit(link).path, folder))
    if path == at:
        return ""
    name = path.removeprefix(f"{at}/")
    return name if name != path and "/" not in name else None
