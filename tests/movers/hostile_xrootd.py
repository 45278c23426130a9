"""An XRootD server that sends whoever opens a file on to another address."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STAT, PROTOCOL, LOGIN, OPEN = 3017, 3006, 3007, 3010
REDIRECT = 4004


@contextmanager
def sending_on(to: str) -> Iterator[str]:
    """Serve until the end of the context; the server's URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, to), daemon=True).start()
        yield f"root://127.0.0.1:{listening.getsockname()[1]}//data"


def _accept(listening: socket.socket, to: str) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, to), daemon=True).start()


def _serve(client: socket.socket, to: str) -> None:
    answers = {
        STAT: (0, b"1 14 16 1700000000\0"),
        PROTOCOL: (0, struct.pack(">II", 0x500, 1)),
        LOGIN: (0, bytes(16)),
        OPEN: (REDIRECT, struct.pack(">i", -1) + to.encode()),
    }
    with client, suppress(EOFError, OSError):
        _received(client, 20)
        client.sendall(bytes(2) + struct.pack(">HIII", 0, 8, 0x500, 1))
        while True:
            head = _received(client, 24)
            kind, length = struct.unpack(">H", head[2:4])[0], struct.unpack(">I", head[20:])[0]
            _received(client, length)
            status, body = answers.get(kind, (0, b""))
            client.sendall(head[:2] + struct.pack(">HI", status, len(body)) + body)


def _received(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := client.recv(size - len(data))):
            raise EOFError
        data += more
    return data
