"""Redirections: a storage may send on to its own hosts and to no others. Movers follow the same rule."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit


def are_followed(start: str, url: str, named: Sequence[str] | None) -> bool:
    """Return whether a client may follow a storage's redirection from one address to another.

    A storage may send on to its own host, and to the hosts in ``named``: names, patterns, addresses or
    networks. If ``named`` is None, it may send on to hosts of its domain: ``pool3.north.example`` for
    ``dav.north.example``.
    """
    own, host = _host(start), _host(url)
    if host == own:
        return True
    if _is_address(host):
        address = ipaddress.ip_address(host)
        return any(address in network for network in _networks(named or ())) or host in _addresses(own)
    if named is not None:
        return any(fnmatchcase(host, one.lower()) for one in named)
    domain = own.partition(".")[2]
    if "." not in domain or _is_address(own):  # what stands above a domain of one part is everybody's
        domain = own
    return host == domain or host.endswith(f".{domain}")


def _networks(named: Sequence[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    found = []
    for one in named:
        try:
            found.append(ipaddress.ip_network(one))
        except ValueError:
            continue  # a name
    return found


def _addresses(host: str) -> set[str]:
    try:
        return {str(place[0]) for *_, place in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".").lower()
