"""Which addresses webhooks may reach: none of the server's own networks unless the operator allows it.

The name is resolved once, every address is checked, and the connection goes to a checked address: a name that
answers differently the next time reaches nothing else.
"""

import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from ssl import SSLContext
from typing import Any

import httpcore

from pilotage.ports.notifying import NotificationError, NotificationRefused

Network = IPv4Network | IPv6Network
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")
_UNICAST = ip_network("2000::/3")
"""All of IPv6 that belongs to public networks. Python counts fec0::/10, once of sites, as global."""


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return networks from texts like ``10.0.0.0/8``. Raises ValueError."""
    return tuple(ip_network(text) for text in texts)


def refusal(address: str, allowed: Sequence[Network]) -> str:
    """Return why an address is not called; empty if it may be."""
    try:
        ip = _plain(ip_address(address))
    except ValueError:
        return f"{address} is no address of one machine"
    if any(ip in network for network in allowed if network.version == ip.version):
        return ""
    if ip.is_global and not ip.is_multicast and (ip.version == 4 or ip in _UNICAST):
        return ""
    return (
        f"{ip} belongs to no public network; an operator may allow its network with PILOTAGE_NOTIFY_NETWORKS"
    )


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address inside an IPv6 address, if there is one."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if inner is None and (address in _NAT64 or (address in _COMPATIBLE and int(address) > 1)):
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


class _LimitedStream(httpcore.NetworkStream):
    """A connection that ends its reads and writes at a time, even if the other side is slow."""

    def __init__(self, stream: httpcore.NetworkStream, until: float) -> None:
        self._stream = stream
        self._until = until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read some bytes."""
        return self._stream.read(max_bytes, self._remaining(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all bytes."""
        self._stream.write(buffer, self._remaining(timeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Go on with TLS."""
        secure = self._stream.start_tls(ssl_context, server_hostname, self._remaining(timeout))
        return _LimitedStream(secure, self._until)

    def get_extra_info(self, info: str) -> Any:
        """Return the facts about the connection."""
        return self._stream.get_extra_info(info)

    def _remaining(self, timeout: float | None) -> float:
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise httpcore.ReadTimeout("it took too long")
        return seconds if timeout is None else min(timeout, seconds)


class CheckedNetwork(httpcore.NetworkBackend):
    """Connects to names if all their addresses may be called, at the address that was checked.

    Everything ends ``time_limit`` s after the connection began.
    """

    def __init__(self, allowed: Sequence[Network], time_limit: float) -> None:
        self._allowed = allowed
        self._time_limit = time_limit
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        """Connect. Raises NotificationRefused for an address that may not be called."""
        try:
            places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise NotificationError(f"{host} has no address: {error}") from error
        addresses = list(dict.fromkeys(str(place[4][0]) for place in places))
        for address in addresses:
            # One forbidden address is enough: which one a receiver answers at is its own choice.
            if fault := refusal(address, self._allowed):
                raise NotificationRefused(f"{host} is not called: {fault}")
        until = time.monotonic() + self._time_limit
        for address in addresses[:-1]:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return self._connected(address, port, timeout, until)
        return self._connected(addresses[-1], port, timeout, until)

    def _connected(
        self, address: str, port: int, timeout: float | None, until: float
    ) -> httpcore.NetworkStream:
        seconds = max(0.1, until - time.monotonic())
        stream = self._plain.connect_tcp(address, port, seconds if timeout is None else min(timeout, seconds))
        return _LimitedStream(stream, until)
