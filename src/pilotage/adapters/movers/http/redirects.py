"""Redirections: a storage may redirect to its own hosts, and to no others.

Disk servers of large storages have their own names. But a storage's answer must not lead Pilotage's machine
to anything that it can reach: a service on the machine itself, a cloud's metadata, a site's internal hosts.
"""

import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from pilotage.adapters.movers.storages.backend import StorageOptionError
from pilotage.ports.moving import StorageError

OPTION = "redirects_to"
"""The storage option that names the allowed redirection hosts, instead of its own domain's."""

MOST_HOSTS = 1000

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Redirects:
    """The hosts that one storage may redirect to.

    These are its own host and, if no others are named, those of its domain: ``pool3.north.example`` for
    ``dav.north.example``. Names may be patterns, such as ``*.pools.example``. Addresses may be networks. The
    address behind a name is checked when connecting. An address on the machine itself, on its link or in a
    private network must be named, unless the storage's own address is of that kind.
    """

    def __init__(self, url: str, named: object = None) -> None:
        self._host = _host(url)
        self._networks: list[Network] = []
        domain = self._host.partition(".")[2]
        # The parent of a one-part domain belongs to everybody. An address has no domain.
        own = [f"*.{domain}", domain] if "." in domain and _address(self._host) is None else []
        self._names = [*own, f"*.{self._host}"] if named is None else []
        for one in _read(named):
            try:
                self._networks.append(ip_network(one))
            except ValueError:
                self._names.append(one.lower())

    def check(self, url: str) -> None:
        """Raise StorageError if a storage must not redirect to an address."""
        host = _host(url)
        if host == self._host:
            return
        if (address := _address(host)) is not None:
            if any(address in network for network in self._networks) or address in self._own_addresses():
                return
        elif any(fnmatchcase(host, name) for name in self._names):
            return
        raise StorageError(
            f"sent on to {shown(url)}, which is not followed: {host} is not known as a host of this storage; "
            f"if it is one, name it in the storage's option {OPTION}"
        )

    def guard(self, url: str, address: str) -> None:
        """Raise StorageError if a redirection's name leads to a forbidden address."""
        found, host = _address(address), _host(url)
        if found is None or host == self._host or any(found in network for network in self._networks):
            return
        kind = _kind(found)
        if kind != "global" and kind not in {_kind(own) for own in self._own_addresses()}:
            raise StorageError(
                f"sent on to {shown(url)}, which is not followed: {host} has the {kind} address {found}; "
                f"if it is a host of this storage, name that address in the storage's option {OPTION}"
            )

    def _own_addresses(self) -> set[Address]:
        try:
            found = socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)
        except OSError:
            return set()
        return {address for *_, place in found if (address := _address(str(place[0]))) is not None}


def check_option(kind: str, named: object) -> None:
    """Raise StorageOptionError unless the option is a list of hosts."""
    try:
        _read(named)
    except ValueError as error:
        raise StorageOptionError(f"{kind}: {OPTION}: {error}") from None


def shown(url: str) -> str:
    """Return an address without its query, which may hold a signature."""
    return url.partition("?")[0][:500]


def _read(named: object) -> Sequence[str]:
    if named is None:
        return ()
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) and one for one in named):
        raise ValueError("must be a list of hosts, such as [pool1.example, '*.pools.example', 10.1.0.0/16]")
    if len(named) > MOST_HOSTS:
        raise ValueError(f"{len(named)} hosts, at most {MOST_HOSTS}; use patterns, or networks")
    for one in named:
        if "/" in one:
            ip_network(one)
    return named


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".").lower()


def _address(host: str) -> Address | None:
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    inside = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return inside or address


def _kind(address: Address) -> str:
    if address.is_loopback or address.is_unspecified:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    return "global" if address.is_global and not address.is_multicast else "private"
