"""Bytes that processes received and sent over TCP, as the kernel counts them per connection (sock_diag)."""

# ruff: noqa: PTH115, PTH208
from __future__ import annotations

import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SOCK_DIAG, _BY_FAMILY, _DUMP, _TCP_INFO = 4, 20, 0x301, 2
_ERROR, _DONE = 2, 3
_HEADER, _RECORD = struct.calcsize("IHHII"), 72
_INODE = 68
"""Offset of a socket's inode in its record."""
_ACKNOWLEDGED = 120
"""Offset in ``tcp_info`` of the bytes that the other side acknowledged. The bytes received follow it."""
_PATIENCE = 1.0
"""Seconds that the kernel may take to answer."""


class Network:
    """Traffic of processes so far, in bytes.

    It misses connections that begin and end between two calls of ``look``.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}

    def look(self, processes: Iterable[int]) -> tuple[int, int]:
        """Return the bytes received and sent so far. Connections that it cannot see count as nothing."""
        inodes = {inode for process in processes for inode in _sockets(process)}
        if inodes:
            for family in (socket.AF_INET, socket.AF_INET6):
                # A closed connection keeps its last counts, or the sum would fall.
                for inode, received, sent in _connections(family):
                    if inode in inodes:
                        self._seen[inode] = received, sent
        return sum(count for count, _ in self._seen.values()), sum(count for _, count in self._seen.values())


def _sockets(process: int) -> Iterator[int]:
    try:
        for name in os.listdir(f"/proc/{process}/fd"):
            target = os.readlink(f"/proc/{process}/fd/{name}")
            if target.startswith("socket:["):
                yield int(target[8:-1])
    except OSError:
        return


def _connections(family: int) -> Iterator[tuple[int, int, int]]:
    """Yield inode, bytes received and bytes sent of every connection in this network namespace."""
    request = struct.pack("BBBxI48x", family, socket.IPPROTO_TCP, 1 << (_TCP_INFO - 1), 0xFFFFFFFF)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(_PATIENCE)
            kernel.send(struct.pack("IHHII", _HEADER + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
            while True:
                answer, at = kernel.recv(1 << 17), 0
                while at < len(answer):
                    size, kind = struct.unpack_from("IH", answer, at)
                    if kind in (_DONE, _ERROR):
                        return
                    yield from _counted(answer[at + _HEADER : at + size])
                    at += (size + 3) & ~3
    except OSError:
        return


def _counted(record: bytes) -> Iterator[tuple[int, int, int]]:
    (inode,) = struct.unpack_from("I", record, _INODE)
    at = _RECORD
    while at + 4 <= len(record):
        size, kind = struct.unpack_from("HH", record, at)
        if kind == _TCP_INFO and size >= 4 + _ACKNOWLEDGED + 16:
            sent, received = struct.unpack_from("QQ", record, at + 4 + _ACKNOWLEDGED)
            yield inode, received, sent
        # A malformed length of 0 would loop here for ever.
        at += max(4, (size + 3) & ~3)
