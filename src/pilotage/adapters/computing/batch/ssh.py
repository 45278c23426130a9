"""Login nodes over SSH: one connection each, few channels at a time, and the tunnel back."""

import asyncio
import logging
import time
from concurrent.futures import CancelledError
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from pilotage.adapters.computing.batch.commands import Command, Outcome
from pilotage.adapters.computing.batch.options import BatchOptions, ssh_address
from pilotage.adapters.computing.batch.ssh_commands import execute
from pilotage.adapters.computing.batch.tunnel import Tunnel
from pilotage.model.values.phrases import not_installed
from pilotage.ports.loop_thread import LoopThread

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

log = logging.getLogger(__name__)

MOST_CHANNELS = 6
"""Most channels at a time. Servers refuse more than ten sessions per connection."""

CONNECT_LIMIT = 30.0
"""Time limit in s for connecting."""

KEEPALIVE = 15
"""Seconds between keepalive messages. After three without an answer the connection ends."""

FIRST_REST, LONGEST_REST = 2.0, 60.0
"""Shortest and longest pause in s before an unreachable login node is tried again. Each failure doubles
it."""


class SshRunner:
    """Runs commands on a login node, and keeps the tunnel open for its pilots.

    The SSH configuration supplies keys, agent, jump hosts and known hosts. Unknown hosts are refused.
    """

    def __init__(self, options: BatchOptions, loop: LoopThread, server_url: str) -> None:
        self.name = options.ssh
        self._config = Path(options.ssh_config).expanduser()
        self._loop = loop
        self._leads_back = options.tunnel
        # A process that only reads has no server's address, and opens no tunnel: the relay would end with it.
        self._tunnel = Tunnel(options, server_url) if options.tunnel and server_url else None
        self._closed_since = time.monotonic() if self._tunnel else inf
        self._connection: SSHClientConnection | None = None
        self._connecting: asyncio.Lock | None = None
        self._channels: asyncio.Semaphore | None = None
        self._rest, self._rest_until, self._fault = FIRST_REST, 0.0, ""

    def run(self, command: Command) -> Outcome:
        """See ``CommandRunner.run``. If the connection breaks, the outcome of the command is unknown."""
        try:
            # The other end enforces the command's own limit. This one is for an end that vanished.
            return self._loop.call(self._run(command), command.time_limit + 2 * CONNECT_LIMIT)
        except (TimeoutError, CancelledError):
            return Outcome(stderr=f"nothing heard for {command.time_limit:g} s")

    def server_url(self, url: str, file: str) -> str:
        """Return the server's address for pilots. With a tunnel it is the relay's address."""
        return f"file://{file}" if self._leads_back else url

    def closed_for(self) -> float:
        """See ``LeadingBack``."""
        return max(0.0, time.monotonic() - self._closed_since)

    async def _run(self, command: Command) -> Outcome:
        if self._channels is None:
            # The tunnel itself takes one channel for the relay.
            self._channels = asyncio.Semaphore(MOST_CHANNELS - bool(self._tunnel))
        async with self._channels:
            return await execute(await self._connected(), command)

    async def _connected(self) -> "SSHClientConnection":
        """Return the connection. Connect again if it is lost. Raises OSError."""
        if self._connecting is None:
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            if time.monotonic() < self._rest_until:
                raise OSError(self._fault)
            try:
                self._connection = await asyncio.wait_for(self._connect(), CONNECT_LIMIT)
            except (OSError, TimeoutError) as error:
                # Keep the error: during the pause it is the answer to all queues behind this node.
                self._fault = f"{self.name} cannot be reached by SSH: {str(error) or 'no answer'}"
                self._rest_until = time.monotonic() + self._rest
                self._rest = min(2 * self._rest, LONGEST_REST)
                raise OSError(self._fault) from error
            self._rest = FIRST_REST
            return self._connection

    async def _connect(self) -> "SSHClientConnection":
        try:
            import asyncssh
        except ModuleNotFoundError as error:
            raise OSError(not_installed("asyncssh", "ssh")) from error
        user, host, port = ssh_address(self.name)
        try:
            connection = await asyncssh.connect(
                host,
                config=[str(self._config)] if self._config.exists() else (),
                keepalive_interval=KEEPALIVE,
                **({"username": user} if user else {}),
                **({"port": port} if port else {}),
            )
        except asyncssh.HostKeyNotVerifiable as error:
            raise OSError(
                f"its host key is not in known_hosts: `ssh {self.name}` once, and check it"
            ) from error
        except asyncssh.PermissionDenied as error:
            raise OSError(f"it accepts none of the keys: see `ssh {self.name}`, `ssh-add -l`") from error
        except (asyncssh.Error, ValueError) as error:
            raise OSError(str(error)) from error
        if self._tunnel:
            try:
                await self._tunnel.open(connection)
                self._closed_since = inf
            except (OSError, asyncssh.Error) as error:
                connection.close()
                raise OSError(f"no tunnel: {error}") from error
            self._keep = asyncio.create_task(self._keep_open(connection))
        return connection

    async def _keep_open(self, connection: "SSHClientConnection") -> None:
        """Connect again as soon as a connection with a tunnel, or its relay, is lost: pilots wait for it."""
        assert self._tunnel
        await self._tunnel.wait_lost(connection)
        self._closed_since = time.monotonic()
        connection.close()
        log.warning("%s: the connection and its tunnel are lost", self.name)
        while True:
            await asyncio.sleep(max(self._rest_until - time.monotonic(), 0.5))
            try:
                await self._connected()
            except OSError as error:
                log.warning("%s", error)
            else:
                log.info("%s: the tunnel is open again", self.name)
                return
