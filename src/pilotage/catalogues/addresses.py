"""Addresses of files in a catalogue, and the path of each below a storage's prefix."""

import re
from urllib.parse import unquote, urlsplit

from pilotage.model.values.urls import WEB

DEFAULT_PORTS = {"https": 443, "davs": 443, "http": 80, "dav": 80, "root": 1094, "xroot": 1094, "roots": 1094}
"""Ports that addresses may leave out, by scheme."""


def path_below(address: str, prefix: str) -> str:
    """Return the path of an address below a prefix; empty if it is not there.

    The default port, doubled slashes and the host's case make no difference. A web storage's address is
    decoded once. Its query is no part of the path, unless the prefix has one too, as addresses of SRM do.
    """
    if "?" in prefix:
        return address.removeprefix(prefix).lstrip("/") if address.startswith(prefix) else ""
    try:
        place, path = _parts(address)
        root_place, root = _parts(prefix)
    except ValueError:  # a port that is no number
        return ""
    if place != root_place or not path.startswith(root):
        return ""
    below = path.removeprefix(root).lstrip("/")
    return "" if ".." in below.split("/") else below


def _parts(address: str) -> tuple[tuple[str, str, int | None], str]:
    """Return scheme, host and port of an address, and its path. Raises ValueError."""
    parts = urlsplit(address)
    is_web = parts.scheme in WEB
    # Only in web addresses do a question mark and a hash end the path.
    path = unquote(parts.path) if is_web else address.partition("://")[2].partition("/")[2]
    place = (parts.scheme, parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme))
    return place, re.sub(r"/{2,}", "/", f"/{path}")
