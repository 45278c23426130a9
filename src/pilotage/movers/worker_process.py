"""One worker process, seen from the server that started it."""

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence

from pilotage.ports.moving import Delivery

from .spawning import last_words, limit, spawn
from .worker import Orders, Statuses, fingerprint

FINGERPRINT = fingerprint()
"""Of the code as this process has loaded it."""

SILENCE = 60.0
"""Seconds without a message after which a process hangs as a whole, not only some of its threads."""

SEND_LIMIT = 5
"""Seconds that a process may leave orders unread, once what the system holds for it is full."""

CANCEL_GRACE = 20.0
"""Seconds that a cancelled delivery has to give up, before its process is ended."""


class WorkerProcess:
    """A process with the deliveries that it has. What it owns is guarded by the lock of its owner.

    ``on_news`` is called with what it tells, ``on_end`` when it has ended, from a thread of its own. With
    ``alone`` it is given one delivery at a time: one that may have ended another process.
    """

    def __init__(
        self,
        mover: str,
        on_news: Callable[["WorkerProcess", Statuses], None],
        on_end: Callable[["WorkerProcess"], None],
        *,
        alone: bool,
    ) -> None:
        self._process, self._connection = spawn("pilotage.movers.worker", mover, FINGERPRINT)
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
        """The process."""
        return self._process.pid

    def start(self, orders: Sequence[tuple[str, Delivery]]) -> None:
        """Hand over deliveries. One that has just died is told of by ``on_end``."""
        self.deliveries |= dict(orders)
        self._send(Orders(start=orders))

    def cancel(self, references: Sequence[str]) -> None:
        """Have deliveries given up."""
        self.cancelled |= dict.fromkeys(references, time.monotonic())
        self._send(Orders(cancel=references))

    def fault(self, now: float) -> str:
        """Say why the process must be ended; empty where it need not.

        One with a cancelled delivery that does not give up is retired, and ended when that is all it has.
        """
        if now - self.heard > SILENCE:
            return f"gave no sign of life for {SILENCE:g} s"
        stuck = {reference for reference, at in self.cancelled.items() if now - at > CANCEL_GRACE}
        self.retired |= bool(stuck)
        if stuck and stuck == self.deliveries.keys():
            return f"held a delivery that did not give up within {CANCEL_GRACE:g} s"
        return ""

    def kill(self, reason: str) -> None:
        """End the process, also one that hangs."""
        self._killed_for = reason
        self._process.kill()

    def let_go(self) -> None:
        """Have the process end by itself, and give it nothing more."""
        self.retired = True
        # A copy, since a socket closes what it is made of; shut down, both are.
        with socket.socket(fileno=os.dup(self._connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_WR)

    def last_words(self) -> str:
        """The reason of its end, for those who waited for its deliveries."""
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
