"""The worker process. It runs deliveries of one mover for a server, until the server lets it go or is gone.

Run as ``python -m pilotage.adapters.movers.processes.worker MOVER DESCRIPTOR CODE``: the name of the mover's
entry point, the file descriptor of a connection to the server, and the fingerprint of the server's code.
Orders and storages' options come only over the connection, because other users can read command lines.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from multiprocessing.connection import Connection
from typing import Any
from zlib import crc32

from pilotage.adapters.movers.processes.spawning import serve
from pilotage.model.records.federation import TransferService
from pilotage.ports import adapters
from pilotage.ports.moving import Delivery, DeliveryStatus, Mover, Place

log = logging.getLogger(__name__)

GROUP = "pilotage.movers"
"""The entry point group of movers."""

BEAT = 1.0
"""Longest time in s between two messages to the server, even without news."""

PAUSE = 0.03
"""Seconds between an end and its report."""

Statuses = dict[str, DeliveryStatus]
"""News of deliveries by the server's references."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The server's orders: deliveries to begin, by reference, and references to give up."""

    start: Sequence[tuple[str, Delivery]] = ()
    cancel: Sequence[str] = ()


def fingerprint(*more: type[Any]) -> str:
    """Return a fingerprint of the code for messages between server and processes, including ``more``.

    An upgrade may change it.
    """
    records = (Orders, Delivery, Place, TransferService, DeliveryStatus, *more)
    shapes = [
        (record.__qualname__, [(field.name, str(field.type)) for field in fields(record)])
        for record in records
    ]
    # An object's memory address is no part of the code, and differs in every process.
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(shapes))
    return f"{version('pilotage')}-{crc32(text.encode()):08x}"


class Worker:
    """Takes orders from a connection, and reports on it what happens to them."""

    def __init__(self, mover: str, connection: "Connection[Statuses, Orders]") -> None:
        self._changed = threading.Event()
        self._mover: Mover = adapters.factory(GROUP, mover)(self._changed.set)
        self._connection = connection
        self._lock = threading.Lock()
        self._own: dict[str, str] = {}  # the mover's references by the server's
        self._told: dict[str, DeliveryStatus] = {}
        self._refused: Statuses = {}

    def run(self) -> None:
        """Work until the connection ends. Then the process ends immediately, even if deliveries run."""
        threading.Thread(target=self._take, daemon=True).start()
        while True:
            if self._changed.wait(BEAT):
                time.sleep(PAUSE)  # small files end by the dozen: report them together
            self._changed.clear()
            self._connection.send(self._news())

    def _take(self) -> None:
        try:
            while True:
                self._obey(self._connection.recv())
        except (EOFError, OSError):
            os._exit(0)
        except Exception:
            # Without this thread no order would be heard again, while reports still show a live process.
            log.exception("an order cannot be obeyed")
            os._exit(1)

    def _obey(self, orders: Orders) -> None:
        answers = self._mover.start([delivery for _, delivery in orders.start])
        with self._lock:
            for (reference, _), answer in zip(orders.start, answers, strict=True):
                if answer.error:
                    self._refused[reference] = DeliveryStatus(state="failed", error=answer.error)
                else:
                    self._own[reference] = answer.reference
            given_up = [self._own[reference] for reference in orders.cancel if reference in self._own]
        self._mover.cancel(given_up)
        self._changed.set()

    def _news(self) -> Statuses:
        """Return ends, and deliveries with progress or a sign of life since the last message."""
        with self._lock:
            references, news, self._refused = dict(self._own), self._refused, {}
        statuses = self._mover.poll(references.values())
        for reference, inner in references.items():
            status = statuses[inner]
            if status.state == "unknown":
                status = replace(status, state="failed", error="the mover forgot this delivery")
            if status.state != "moving":
                del self._own[reference]
                self._told.pop(reference, None)
            elif self._told.get(reference) == status:
                continue
            else:
                self._told[reference] = status
            news[reference] = status
        return news


if __name__ == "__main__":
    serve(Worker, fingerprint())
