"""Redirections: a storage may redirect to its own hosts, and to no others.

Disk servers of large storages have their own names. But a storage's answer must not lead Pilotage's machine
to anything that it can reach: a service on the machine itself, a cloud's metadata, a site's internal hosts.
"""

from collections.abc import Sequence
from ipaddress import ip_network

from pilotage.adapters.movers.storages.backend import StorageOptionError
from pilotage.agent.files.web_addresses import (
    Address,
    address_of,
    addresses,
    host_of,
    may_redirect,
    networks,
    without_query,
)
from pilotage.ports.moving import StorageError

OPTION = "redirects_to"
"""The storage option that names the allowed redirection hosts, instead of its own domain's."""

MOST_HOSTS = 1000


class Redirects:
    """The hosts that one storage may redirect to.

    ``may_redirect`` has the rule. The address behind a name is checked when connecting. The option's
    ``hosts`` must name a target on the machine itself, on its link or in a private network, unless the
    storage itself has such an address.
    """

    def __init__(self, url: str, hosts: object = None) -> None:
        self._url = url
        self._hosts = None if hosts is None else _read(hosts)

    def check(self, url: str) -> None:
        """Raise StorageError if a storage must not redirect to an address."""
        if not may_redirect(self._url, url, self._hosts):
            raise StorageError(
                f"sent on to {without_query(url)}, which is not followed: {host_of(url)} is not known as a "
                f"host of this storage; if it is one, name it in the storage's option {OPTION}"
            )

    def guard(self, url: str, text: str) -> None:
        """Raise StorageError if a redirection's name leads to a forbidden address."""
        address, host, storage = address_of(text), host_of(url), host_of(self._url)
        if address is None or host == storage or any(address in network for network in networks(self._hosts)):
            return
        kind = _kind(address)
        if kind != "global" and kind not in map(_kind, addresses(storage)):
            raise StorageError(
                f"sent on to {without_query(url)}, which is not followed: {host} has the {kind} "
                f"address {address}; if it is a host of this storage, name that address in the storage's "
                f"option {OPTION}"
            )


def check_option(kind: str, hosts: object) -> None:
    """Raise StorageOptionError unless the option is a list of hosts."""
    try:
        if hosts is not None:
            _read(hosts)
    except ValueError as error:
        raise StorageOptionError(f"{kind}: {OPTION}: {error}") from None


def _read(hosts: object) -> Sequence[str]:
    if not isinstance(hosts, list | tuple) or not all(isinstance(host, str) and host for host in hosts):
        raise ValueError("must be a list of hosts, such as [pool1.example, '*.pools.example', 10.1.0.0/16]")
    if len(hosts) > MOST_HOSTS:
        raise ValueError(f"{len(hosts)} hosts, at most {MOST_HOSTS}; use patterns, or networks")
    for host in hosts:
        if "/" in host:
            ip_network(host)
    return hosts


def _kind(address: Address) -> str:
    if address.is_loopback or address.is_unspecified:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    return "global" if address.is_global and not address.is_multicast else "private"
