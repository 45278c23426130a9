"""The server of the API and the page of this process, which reports its life to the service manager."""

from collections.abc import Callable
from socket import socket
from types import FrameType

import uvicorn

from pilotage.server.service_manager import ServiceManager


class ApiServer(uvicorn.Server):
    """Reports the first signal. While it runs, this server receives all signals."""

    def __init__(
        self, config: uvicorn.Config, signalled: Callable[[], None], manager: ServiceManager
    ) -> None:
        super().__init__(config)
        self._signalled, self._manager = signalled, manager

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._manager.report_ready("serves requests")

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end. The event loop calls it ten times a second, if it is not blocked."""
        self._manager.beat()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End as after any signal, and report it."""
        self._signalled()
        super().handle_exit(sig, frame)
