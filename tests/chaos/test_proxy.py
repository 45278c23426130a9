"""The proxy does to connections what its mode says."""

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from tests.waiting import wait_for

from .proxy import Proxy


class _Echo(socketserver.BaseRequestHandler):
    heard: list[bytes]

    def handle(self) -> None:
        while data := self.request.recv(100):
            type(self).heard.append(data)
            self.request.sendall(data)


@pytest.fixture
def proxy(free_port: int) -> Iterator[Proxy]:
    """A proxy before a server that sends back what it gets."""
    _Echo.heard = []
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        proxy = Proxy("127.0.0.1", free_port, lambda: server.server_address[1])
        yield proxy
        proxy.close()
        server.shutdown()


def connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.settimeout(0.5)
    return made


def has_ended(one: socket.socket) -> bool:
    """Tell whether the other end has ended a connection."""
    try:
        return one.recv(10) == b""
    except ConnectionResetError:
        return True


def test_open_cut_and_silent(proxy: Proxy, free_port: int) -> None:
    with connected(free_port) as one:
        one.sendall(b"a")
        assert one.recv(10) == b"a"
        proxy.set("silent")
        one.sendall(b"b")
        with pytest.raises(TimeoutError):
            one.recv(10)
        proxy.set("open")
        assert one.recv(10) == b"b"
        proxy.set("cut")
        assert has_ended(one)
    with connected(free_port) as other:
        assert has_ended(other)


def test_twice(proxy: Proxy, free_port: int) -> None:
    proxy.set("twice")
    with connected(free_port) as one:
        one.sendall(b"a")
        assert one.recv(10) == b"a"
        one.settimeout(10)
        one.shutdown(socket.SHUT_WR)
        assert one.recv(10) == b"", "no second answer"
        wait_for(lambda: _Echo.heard == [b"a", b"a"], "the repetition")
