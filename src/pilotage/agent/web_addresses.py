"""Addresses of servers, and what an answer's headers say of a file. Movers and catalogues follow the same
rules."""

from __future__ import annotations

from urllib.parse import urlsplit

DEFAULT_PORTS = {"https": 443, "davs": 443, "http": 80, "dav": 80, "root": 1094, "xroot": 1094, "roots": 1094}
"""Ports that addresses may leave out, by scheme."""

COMPRESSED = (".gz", ".tgz", ".svgz", ".z", ".br", ".zst", ".bz2", ".xz", ".lz4", ".zip")
"""Endings, in lower case, of files that are stored compressed."""


def server_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of an address: equal for equal servers, however they are written.

    The same host without encryption is another server. Raises ValueError for a port that is no number.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return parts.scheme, host, parts.port or DEFAULT_PORTS.get(parts.scheme)


def is_encoded(encoding: str | None, url: str) -> bool:
    """Return whether a server, or a cache before it, compressed a file on the way, though asked not to.

    ``encoding`` is the header Content-Encoding.
    A file that is stored compressed, such as ``a.gz``, may have the same header: its bytes are the file.
    """
    stored = urlsplit(url).path.lower().endswith(COMPRESSED)
    return (encoding or "").strip().lower() not in ("", "identity") and not stored
