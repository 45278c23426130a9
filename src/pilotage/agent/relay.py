"""The relay on a login node. It passes pilots' calls into a tunnel to their server, and nowhere else.

A reverse tunnel of SSH ends at the login node's loopback, which the cluster's nodes can rarely reach. Pilots
and relay share one key and certificate, in a file that only their account can read. Nobody without this file
can connect or read along.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import ssl
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

from . import web

MOST_CONNECTIONS = 2000
SILENCE = 600.0
"""Seconds without a byte after which a connection is closed."""
BLOCK = 1 << 16
FILE = "file://"


def opener(identity: str) -> urllib.request.OpenerDirector:
    """Return an HTTPS client for a relay with the key and certificate of the file ``identity``.

    It uses no proxy.
    """
    return web.opener(_context(identity, ssl.PROTOCOL_TLS_CLIENT), urllib.request.ProxyHandler({}))


def address(url: str) -> str:
    """Return a server's URL. If the URL names a file, return the file's current content. Raises OSError."""
    if not url.startswith(FILE):
        return url
    found = Path(url[len(FILE) :]).read_text().strip()
    if not found.startswith("https://"):
        raise OSError(f"{url} holds no address of a relay")
    return found


def main(arguments: list[str]) -> None:
    """Run a relay until standard input ends. The SSH connection that started it closes standard input."""
    options = argparse.ArgumentParser(prog="python agent.pyz relay", description=main.__doc__)
    options.add_argument("--tunnel", required=True, help="the socket at which the server answers")
    options.add_argument("--identity", required=True, help="the file with key and certificate")
    options.add_argument("--address", type=Path, required=True, help="the file that gets the relay's URL")
    options.add_argument("--host", default="", help="the name or address of this machine; empty: its name")
    chosen = options.parse_args(arguments)
    asyncio.run(_relay(chosen.tunnel, chosen.identity, chosen.address, chosen.host))


def _context(identity: str, protocol: int) -> ssl.SSLContext:
    """Return TLS between two that share a certificate. No other is trusted, whatever its name."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A login node has different names on different networks. We know the certificate itself.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(identity)
    context.load_cert_chain(identity)
    return context


async def _relay(tunnel: str, identity: str, file: Path, host: str) -> None:
    open_now: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        if len(open_now) < MOST_CONNECTIONS:
            open_now.add(task)
            task.add_done_callback(open_now.discard)
            await _pass_on(reader, writer, tunnel)
        writer.close()

    context = _context(identity, ssl.PROTOCOL_TLS_SERVER)
    server = await asyncio.start_server(serve, host or None, _port(host), ssl=context, backlog=512)
    url = f"https://{_name(host)}:{server.sockets[0].getsockname()[1]}"
    # Rename the complete file: pilots may read the address at any moment.
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_text(f"{url}\n")
    draft.replace(file)
    print(url, flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


def _port(host: str) -> int:
    """Return a port that is free on all addresses of the machine."""
    if host:
        return 0
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def _name(host: str) -> str:
    name = host or socket.gethostname()
    return f"[{name}]" if ":" in name else name


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tunnel: str) -> None:
    """Copy bytes both ways until either end closes."""
    try:
        there, back = await asyncio.open_unix_connection(tunnel)
    except OSError as error:
        print(f"the tunnel is closed: {error}", file=sys.stderr, flush=True)
        return
    ways = [asyncio.create_task(_copy(reader, back)), asyncio.create_task(_copy(there, writer))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    back.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.TimeoutError):
        while data := await asyncio.wait_for(source.read(BLOCK), SILENCE):
            target.write(data)
            await target.drain()
