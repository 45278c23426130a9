"""One worker process, seen from its server."""

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence

from pilotage.adapters.movers.processes.spawning import last_words, limit, spawn
from pilotage.adapters.movers.processes.worker import Orders, Statuses, fingerprint
from pilotage.ports.moving import Delivery

FINGERPRINT = fingerprint()
"""Fingerprint of the code as this process has loaded it."""

SILENCE = 60.0
"""Seconds without a message after which a process counts as hanging entirely."""

SEND_LIMIT = 5
"""Seconds that a process may leave orders unread once the system's buffer is full."""

CANCEL_GRACE = 20.0
"""Seconds for a cancelled delivery to give up before its process is killed."""


class WorkerProcess:
    """A process with its deliveries. Its owner's lock guards its state.

    A separate thread calls ``on_news`` with its reports, and ``on_end`` when it has ended. With ``alone`` it
    gets one delivery at a time: one that may have killed another process.
    """

    def __init__(
        self,
        mover: str,
        on_news: Callable[["WorkerProcess", Statuses], None],
        on_end: Callable[["WorkerProcess"], None],
        *,
        alone: bool,
    ) -> None:
        self._process, self._connection = spawn(
            "pilotage.adapters.movers.processes.worker", mover, FINGERPRINT
        )
        # The sender holds the owner's lock.
        limit(self._connection, SEND_LIMIT, socket.SO_SNDTIMEO)
        self._on_news, self._on_end = on_news, on_end
        self._killed_for = ""
        self.alone = alone
        self.retired = False
        self.deliveries: dict[str, Delivery] = {}
        self.cancelled: dict[str, float] = {}
        self.heard = self.busy = time.monotonic()
        threading.Thread(target=self._listen, name=f"mover-{mover}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def start(self, orders: Sequence[tuple[str, Delivery]]) -> None:
        """Hand over deliveries. If the process has just died, ``on_end`` reports that."""
        self.deliveries |= dict(orders)
        self._send(Orders(start=orders))

    def cancel(self, references: Sequence[str]) -> None:
        """Give up deliveries."""
        self.cancelled |= dict.fromkeys(references, time.monotonic())
        self._send(Orders(cancel=references))

    def fault(self, now: float) -> str:
        """Return why the process must be ended; empty if it need not.

        A process with a cancelled delivery that does not give up is retired, and ended once it has nothing
        else.
        """
        if now - self.heard > SILENCE:
            return f"gave no sign of life for {SILENCE:g} s"
        stuck = {reference for reference, at in self.cancelled.items() if now - at > CANCEL_GRACE}
        self.retired |= bool(stuck)
        if stuck and stuck == self.deliveries.keys():
            return f"held a delivery that did not give up within {CANCEL_GRACE:g} s"
        return ""

    def kill(self, reason: str) -> None:
        """End the process, even if it hangs."""
        self._killed_for = reason
        self._process.kill()

    def let_go(self) -> None:
        """Let the process end by itself, and give it nothing more."""
        self.retired = True
        # Use a copy, because a socket closes its descriptor. Shutting it down affects both.
        with socket.socket(fileno=os.dup(self._connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_WR)

    def last_words(self) -> str:
        """Return the reason of its end, for those who waited for its deliveries."""
        killed = self._killed_for
        return f"the worker process {killed}" if killed else last_words(self._process.returncode)

    def _send(self, orders: Orders) -> None:
        try:
            self._connection.send(orders)
        except OSError as error:
            self.kill(f"took no orders: {error}")

    def _listen(self) -> None:
        try:
            while True:
                news = self._connection.recv()
                self.heard = time.monotonic()
                self._on_news(self, news)
        except (EOFError, OSError):
            self._process.kill()  # without its connection it is of no use
            self._process.wait()
            self._connection.close()
            self._on_end(self)
