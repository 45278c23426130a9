"""The quota that a WebDAV server reports for a folder (RFC 4331)."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from pilotage.adapters.movers.http.http_bodies import whole_text
from pilotage.adapters.movers.http.listings import NO_WEBDAV, parsed
from pilotage.ports.moving import Space

if TYPE_CHECKING:
    import requests

PROPERTIES = (
    b'<?xml version="1.0" encoding="utf-8"?>'
    b'<propfind xmlns="DAV:"><prop><quota-available-bytes/><quota-used-bytes/></prop></propfind>'
)


def quota(request: "Callable[..., AbstractContextManager[requests.Response]]") -> Space | None:
    """Return the quota of a storage's folder; None if the server knows none.

    Negative numbers mean "unknown" and "unlimited". Raises StorageError for an invalid answer.
    """
    headers = {"Depth": "0", "Content-Type": "application/xml"}
    call = request("PROPFIND", "", headers=headers, body=PROPERTIES, allowed=NO_WEBDAV)
    # A missing folder is made at the first write.
    with suppress(FileNotFoundError), call as answer:
        return _space(answer)
    return None


def _space(answer: "requests.Response") -> Space | None:
    if answer.status_code != HTTPStatus.MULTI_STATUS:
        return None
    root = parsed(whole_text(answer))
    available, used = (
        root.findtext(f".//{{DAV:}}quota-{name}-bytes", "").strip() for name in ("available", "used")
    )
    if not available.isdecimal():
        return None
    free = int(available)
    return Space(free=free, total=free + int(used) if used.isdecimal() else None)
