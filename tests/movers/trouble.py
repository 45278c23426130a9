"""Trouble on the way to a real server: a proxy that cuts, resets, slows down and refuses connections."""

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

RESET = struct.pack("ii", 1, 0)
"""What makes a socket end its connection by a reset, not by an orderly end."""


class Proxy:
    """Forwards connections to a port of this machine, and counts what it gives back and takes.

    After ``most_down`` bytes from the server, or ``most_up`` to it, connections are cut and none is made any
    more, until ``mend``. With ``reset`` they are cut by a reset, otherwise as if all had been said.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.down = self.up = 0
        self.most_down = self.most_up = 1 << 60
        self.reset = True
        self.rate = 0.0
        """Bytes a second, 0 for as many as there are."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def broken(self) -> bool:
        """Tell if nothing is forwarded now."""
        return self.down >= self.most_down or self.up >= self.most_up

    def mend(self) -> None:
        """Forward everything, and count anew."""
        self.down = self.up = 0
        self.most_down = self.most_up = 1 << 60
        self.rate = 0.0

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.broken:
                    self._cut(client)
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._port))
                except OSError:
                    client.close()
                    raise
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Forward both ways in one thread: closing a socket that another one reads from ends nothing."""
        with suppress(OSError):
            while not self.broken:
                ready, _, _ = select.select([client, server], [], [])
                if not all(self._pass(one, client, server) for one in ready):
                    break
        self._cut(client)
        self._cut(server)

    def _pass(self, source: socket.socket, client: socket.socket, server: socket.socket) -> bool:
        data = source.recv(1 << 16)
        if source is client:
            data = data[: max(0, self.most_up - self.up)]
            self.up += len(data)
            server.sendall(data)
        else:
            data = data[: max(0, self.most_down - self.down)]
            self.down += len(data)
            client.sendall(data)
        if self.rate:
            time.sleep(len(data) / self.rate)
        return bool(data)

    def _cut(self, one: socket.socket) -> None:
        with suppress(OSError):
            if self.reset and self.broken:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.close()


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """Run a proxy before a port."""
    made = Proxy(port)
    try:
        yield made
    finally:
        made.close()
