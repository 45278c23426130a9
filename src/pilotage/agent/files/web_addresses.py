"""Addresses of servers, the redirections that clients follow, and the compression of answers.

Movers and catalogues follow the same rules.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Union
from urllib.parse import urlsplit, urlunsplit

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

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


def may_redirect(start: str, url: str, allowed: Sequence[str] | None) -> bool:
    """Return whether a client may follow a storage's redirection from one address to another.

    A storage may redirect to its own host, and to the ``allowed`` hosts: names, patterns, addresses or
    networks. If these are None, it may redirect to hosts of its domain: ``pool3.north.example`` for
    ``dav.north.example``.
    """
    storage, host = host_of(start), host_of(url)
    if host == storage:
        return True
    if address := address_of(host):
        return any(address in network for network in networks(allowed)) or address in addresses(storage)
    if allowed is not None:
        return any(fnmatchcase(host, name.lower()) for name in allowed)
    domain = storage.partition(".")[2]
    # The parent of a domain of one part belongs to everybody. An address has no domain.
    if "." not in domain or address_of(storage):
        domain = storage
    return host == domain or host.endswith(f".{domain}")


def networks(hosts: Iterable[str] | None) -> list[Network]:
    """Return the addresses and networks among hosts."""
    parsed: list[Network] = []
    for host in hosts or ():
        try:
            parsed.append(ipaddress.ip_network(host))
        except ValueError:
            continue  # a name
    return parsed


def addresses(host: str) -> set[Address]:
    """Return the addresses of a host; none if its name cannot be resolved."""
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {address for *_, place in places if (address := address_of(str(place[0])))}


def address_of(host: str) -> Address | None:
    """Return a host's address if its name is one. An IPv4 address in the form of IPv6 counts as itself."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def host_of(url: str) -> str:
    """Return the host of an address, in lower case."""
    return (urlsplit(url).hostname or "").rstrip(".").lower()


def without_query(url: str) -> str:
    """Return an address without its query, which may hold a signature."""
    return url.partition("?")[0][:500]
