"""Login nodes over SSH: one connection each, few channels at a time, and the tunnel that leads back."""

import asyncio
import logging
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING

from pilotage.ports.loop_thread import LoopThread

from .commands import Command, Outcome
from .options import BatchOptions, ssh_address
from .spool_paths import SpoolPaths
from .ssh_commands import execute
from .tunnel import Tunnel

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

log = logging.getLogger(__name__)

MOST_CHANNELS = 6
"""Channels at a time: servers refuse more than ten sessions of one connection."""

CONNECT_LIMIT = 30.0
"""Seconds in which a connection must be there."""

KEEPALIVE = 15
"""Seconds between questions whether the other end is alive; three without an answer end the connection."""

FIRST_REST, LONGEST_REST = 2.0, 60.0
"""Seconds in which a login node that could not be reached is left alone; they double each time."""


class SshRunner:
    """Runs commands on a login node, and keeps the tunnel open that its pilots need.

    Keys, agent, jump hosts and known hosts are those of the SSH configuration; a host that is not known is
    refused.
    """

    def __init__(self, options: BatchOptions, loop: LoopThread, server_url: str) -> None:
        self.name = options.ssh
        self._config = Path(options.ssh_config).expanduser()
        self._loop = loop
        self._tunnel = Tunnel(options, server_url) if options.tunnel else None
        self._connection: SSHClientConnection | None = None
        self._connecting: asyncio.Lock | None = None
        self._channels: asyncio.Semaphore | None = None
        self._rest, self._rest_until, self._fault = FIRST_REST, 0.0, ""

    def run(self, command: Command) -> Outcome:
        """See :meth:`CommandRunner.run`: a connection that is cut leaves unknown what came of the command."""
        try:
            # The command's own limit is kept at the other end; this one is for an end that vanished.
            return self._loop.call(self._run(command), command.time_limit + 2 * CONNECT_LIMIT)
        except (TimeoutError, CancelledError):
            return Outcome(stderr=f"nothing heard for {command.time_limit:g} s")

    def server_url(self, url: str, paths: SpoolPaths) -> str:
        """The server's address for pilots: that of the relay, where there is a tunnel."""
        return f"file://{paths.address}" if self._tunnel else url

    async def _run(self, command: Command) -> Outcome:
        if self._channels is None:
            # One for the relay is taken by the tunnel itself.
            self._channels = asyncio.Semaphore(MOST_CHANNELS - bool(self._tunnel))
        async with self._channels:
            return await execute(await self._connected(), command)

    async def _connected(self) -> "SSHClientConnection":
        """The connection, made anew where it is lost. Raises OSError."""
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
                # Remembered: all queues behind this node are refused at once while it rests.
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
            raise OSError("asyncssh is not installed: pip install 'pilotage[ssh]'") from error
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
            except (OSError, asyncssh.Error) as error:
                connection.close()
                raise OSError(f"no tunnel: {error}") from error
            self._keep = asyncio.create_task(self._keep_open(connection))
        return connection

    async def _keep_open(self, connection: "SSHClientConnection") -> None:
        """Connect again as soon as a connection with a tunnel is lost: pilots wait for it."""
        await connection.wait_closed()
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
