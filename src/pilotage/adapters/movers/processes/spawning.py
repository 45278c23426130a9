"""Start processes of movers. Each has a connection to its server, and ends with it.

There are two kinds of workers with two protocols. Here is their common part. Why two:

- A *worker* (``.worker``) has many deliveries in one process, because thousands may be under way.
- A *call worker* (``.call_worker``) has one call at a time: a scan, a read, a write, a removal.
- A caller waits for each call, up to so many seconds. A call that hangs is killed with its process, alone.
- The same kill in a worker would end the deliveries of others.
- A delivery may take hours. Its worker sends news each second. The server gives up a silent worker.
- A cancelled delivery has 20 s to remove its temporary files. An abandoned call has none.
- Deliveries of a worker that died start again, each alone. A worker never makes a call twice.
- A call carries the bytes of a file over its connection, where no other message may come between.
- Small files of one slot go one after another in one worker (D8). Calls have no slots.
- One protocol would need both loops, and would ask at each step which of the two it serves.
"""

import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from pilotage import log_lines

OTHER_CODE = 64
"""Exit code of a process whose code differs from the server's: they would not understand each other."""


class Runs(Protocol):
    """A worker, as its process needs it."""

    def run(self) -> None:
        """Work until there is nothing more to do, or the server is gone."""


def spawn(module: str, mover: str, code: str) -> "tuple[subprocess.Popen[bytes], Connection[Any, Any]]":
    """Start ``python -m MODULE MOVER DESCRIPTOR CODE``. Return it with this end of the connection."""
    server_end, worker_end = socket.socketpair()
    with worker_end:
        process = subprocess.Popen(
            # A separate session, so that Ctrl-C at the terminal reaches only the server.
            [sys.executable, "-m", module, mover, str(worker_end.fileno()), code],
            stdin=subprocess.DEVNULL,
            pass_fds=[worker_end.fileno()],
            start_new_session=True,
        )
    return process, Connection(server_end.detach())


def serve(worker: "Callable[[str, Connection[Any, Any]], Runs]", code: str) -> None:
    """Run a worker in a process that ``spawn`` started. ``code`` is this process's fingerprint."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's: it ends us when it has ended
    mover, descriptor, server_code = sys.argv[1:]
    if server_code != code:
        sys.exit(OTHER_CODE)
    with log_lines.logged_as_parent():
        worker(mover, Connection(int(descriptor))).run()


def limit(connection: "Connection[Any, Any]", seconds: float, *options: int) -> None:
    """Let sending or receiving, as named in ``options``, raise BlockingIOError after that many seconds.

    The kernel watches the time, because a Connection has no time limit.
    """
    whole = int(seconds)
    span = struct.pack("@ll", whole, int((seconds - whole) * 1e6))
    with socket.socket(fileno=connection.fileno()) as same:
        for option in options:
            same.setsockopt(socket.SOL_SOCKET, option, span)
        same.detach()


def last_words(code: int) -> str:
    """Return how a worker process ended by itself, given its exit code."""
    if code == OTHER_CODE:
        return "the worker process has other code than this server: an upgrade changed it; restart the server"
    manner = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"the worker process ended {manner}"
