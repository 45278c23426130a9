"""Messages to the service manager that started this process, by systemd's protocol ``sd_notify``.

The manager waits for the first one before it starts what comes after this server. It restarts a server that
stops to send them.
"""

import logging
import os
import socket
import time
from collections.abc import MutableMapping
from typing import Self

log = logging.getLogger(__name__)

BEATS = 3
"""Beats within the time that the manager waits for one."""


class ServiceManager:
    """Sends messages, or none if no manager asked for them."""

    def __init__(self, address: str, patience: float) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._pause = patience / BEATS
        self._last = time.monotonic()

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> Self:
        """Take the manager's variables out of the environment, so that pilots of this server get none."""
        address, process, limit = (
            environment.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")
        )
        is_watched = limit.isdecimal() and process in ("", str(os.getpid()))
        return cls(address, int(limit) / 1e6 if is_watched else 0.0)

    @property
    def pause(self) -> float | None:
        """Seconds between two beats; None if the manager does not wait for them."""
        return self._pause or None

    def report_ready(self, status: str) -> None:
        """Report that this server takes requests, with a line for ``systemctl status``."""
        self._send(f"READY=1\nSTATUS={status}")

    def beat(self) -> None:
        """Report that this process lives, if the last beat is long ago."""
        if self._pause and time.monotonic() - self._last >= self._pause:
            self._last = time.monotonic()
            self._send("WATCHDOG=1")

    def report_end(self) -> None:
        """Report that this server ends."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                # A manager that does not read must not stop the server: the next beat comes soon.
                channel.setblocking(False)
                channel.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning(
                "the service manager at %s cannot be reached with %s: %s", self._address, message, error
            )
