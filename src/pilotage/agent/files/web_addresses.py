"""Addresses of servers, and what an answer's headers say of a file. Movers and catalogues follow the same
rules."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

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


def canonical(url: str) -> str:
    """Return a web address with its server in one form: lower case, without the default port.

    Some servers compare the texts of two addresses, as of a file and of its new name. Raises ValueError.
    """
    scheme, host, port = server_of(url)
    place = f"[{host}]" if ":" in host else host
    if port != DEFAULT_PORTS.get(scheme):
        place += f":{port}"
    return urlunsplit(urlsplit(url)._replace(scheme=scheme, netloc=place))


def is_encoded(encoding: str | None, url: str) -> bool:
    """Return whether a server, or a cache before it, compressed a file on the way, though asked not to.

    ``encoding`` is the header Content-Encoding.
    A file that is stored compressed, such as ``a.gz``, may have the same header: its bytes are the file.
    """
    stored = urlsplit(url).path.lower().endswith(COMPRESSED)
    return (encoding or "").strip().lower() not in ("", "identity") and not stored
