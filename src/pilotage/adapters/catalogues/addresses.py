"""Addresses of files in a catalogue, and the path of each below a storage's prefix."""

import re
from urllib.parse import unquote, urlsplit

from pilotage.agent.files.web_addresses import server_of
from pilotage.model.values.urls import WEB


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
    return server_of(address), re.sub(r"/{2,}", "/", f"/{path}")
