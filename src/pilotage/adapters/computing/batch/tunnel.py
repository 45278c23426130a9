"""The way back from a login node to a server without an open port: a reverse tunnel and a relay."""

import asyncio
import logging
import shlex
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pilotage.adapters.computing.agent_file import agent_file
from pilotage.adapters.computing.batch.commands import shell
from pilotage.adapters.computing.batch.options import BatchOptions
from pilotage.adapters.computing.batch.spool import Spool, agent_name
from pilotage.adapters.computing.batch.ssh_commands import execute

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

log = logging.getLogger(__name__)

LIFETIME = timedelta(days=3650)
START = 20.0
"""Time limit in s for the relay to print its address."""

LOOK = 20.0
"""Seconds after which a relay looks whether pilots still find it, or another that answers."""


class Tunnel:
    """A tunnel to the server at ``server_url``, for one login node."""

    def __init__(self, options: BatchOptions, server_url: str) -> None:
        self._options = options
        self._server = server_url
        self._relay: SSHClientProcess[str] | None = None

    async def open(self, connection: "SSHClientConnection") -> None:
        """Open the tunnel on a new connection, and start its relay at the other end. Raises OSError."""
        server = urlsplit(self._server)
        if server.scheme != "http" or not server.hostname:
            raise OSError(f"a tunnel leads to an http:// address of this machine, not to {self._server!r}")
        files = {"relay.pem.new": make_identity(), f"{agent_name()}.part": agent_file()}
        # Keep an existing key: pilots that wait in the queue know no other.
        keep = "{ [ -s relay.pem ] || mv relay.pem.new relay.pem; } && rm -f relay.pem.new"
        placed = await execute(connection, Spool.unpacking(self._options.spool, files, keep))
        # Not in the spool: many shared file systems support no sockets, and socket paths must be short.
        socket_folder = await execute(connection, shell("mktemp -d /tmp/pilotage-XXXXXXXX"))
        if placed.code != 0 or socket_folder.code != 0:
            raise OSError((placed if placed.code != 0 else socket_folder).complaint)
        root, folder = placed.stdout.splitlines()[0], socket_folder.stdout.strip()
        await connection.forward_remote_path_to_port(f"{folder}/server", server.hostname, server.port or 80)
        relay = await connection.create_process(_relay(self._options, root, folder))
        address = ""
        with suppress(TimeoutError):
            address = await asyncio.wait_for(_address(relay), START)
        if not address:
            log_tail = await execute(connection, shell(f"tail -c 400 {shlex.quote(root)}/logs/relay.log"))
            raise OSError(f"the relay does not start: {log_tail.complaint}; it needs Python 3.9 there")
        self._relay = relay
        log.info("%s: pilots reach this server at %s", self._options.ssh, address.strip())

    async def wait_lost(self, connection: "SSHClientConnection") -> None:
        """Wait until the connection is lost, or its relay has ended."""
        assert self._relay
        ends = [asyncio.ensure_future(end) for end in (connection.wait_closed(), self._relay.wait_closed())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()


async def _address(relay: "SSHClientProcess[str]") -> str:
    """Return the address that the relay prints after any output of start-up files; empty if it ends first."""
    while line := await relay.stdout.readline():
        if line.startswith("https://"):
            return line
    return ""


def _relay(options: BatchOptions, root: str, folder: str) -> str:
    """Return the relay's command. The relay removes its folder when it ends."""
    arguments = {
        "tunnel": f"{folder}/server",
        "identity": f"{root}/relay.pem",
        "address": f"{root}/relay.url",
        "host": options.relay_host,
        "look": f"{LOOK:g}",
    }
    command = [
        options.python,
        "-I",
        f"{root}/{agent_name()}",
        "relay",
        *(f"--{n}={v}" for n, v in arguments.items()),
    ]
    run = f"{shlex.join(command)} 2>{shlex.quote(root)}/logs/relay.log"
    return shlex.join(["sh", "-c", f"{run}; rm -rf {shlex.quote(folder)}"])


def make_identity() -> bytes:
    """Return a new key and its self-signed certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pilotage relay")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
