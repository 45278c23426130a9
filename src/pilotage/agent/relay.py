"""The relay on a login node. It passes pilots' calls into a tunnel to their server, and nowhere else.

A reverse tunnel of SSH ends at the login node's loopback, which the cluster's nodes can rarely reach. Pilots
and relay share one key and certificate, in a file that only their account can read. Without this file one can
neither connect nor read along.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import ssl
import sys
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

from .files import web

MOST_CONNECTIONS = 2000
SILENCE = 600.0
"""Seconds without a byte after which a connection is closed."""
ANSWER = 5.0
"""Seconds for another relay to answer."""
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
    relay_url = Path(url[len(FILE) :]).read_text().strip()
    if not relay_url.startswith("https://"):
        raise OSError(f"{url} holds no address of a relay")
    return relay_url


def main(arguments: list[str]) -> None:
    """Run a relay until standard input ends. The SSH connection that started it closes standard input."""
    options = argparse.ArgumentParser(prog="python agent.pyz relay", description=main.__doc__)
    options.add_argument("--tunnel", required=True, help="the socket at which the server answers")
    options.add_argument("--identity", required=True, help="the file with key and certificate")
    options.add_argument("--address", type=Path, required=True, help="the file that gets the relay's URL")
    options.add_argument("--host", default="", help="the name or address of this machine; empty: its name")
    options.add_argument("--look", type=float, default=20.0, help="s between two looks at that file")
    chosen = options.parse_args(arguments)
    asyncio.run(_relay(chosen.tunnel, chosen.identity, AddressFile(chosen.address, chosen.look), chosen.host))


def _context(identity: str, protocol: int) -> ssl.SSLContext:
    """Return TLS between two programs that share a certificate. It trusts only this certificate."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A login node has different names on different networks. We know the certificate itself.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(identity)
    context.load_cert_chain(identity)
    return context


class AddressFile:
    """The file with a relay's URL for pilots, and the seconds between two looks at it."""

    def __init__(self, file: Path, pause: float) -> None:
        self._file = file
        self._pause = pause

    def put(self, url: str) -> None:
        """Write a relay's URL. Pilots may read it at any moment, so rename the complete file."""
        draft = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        draft.write_text(f"{url}\n")
        draft.replace(self._file)

    async def keep(self, url: str, context: ssl.SSLContext) -> None:
        """Put this relay's URL back whenever the file names a relay that does not answer."""
        while True:
            await asyncio.sleep(self._pause)
            try:
                named = address(f"{FILE}{self._file}")
                if named != url and not await _answers(named, context):
                    self.put(url)
                    print(f"{named} did not answer: pilots find {url} again", file=sys.stderr, flush=True)
            except FileNotFoundError:
                self.put(url)
            except OSError as error:
                print(f"{self._file}: {error}", file=sys.stderr, flush=True)


async def _answers(url: str, context: ssl.SSLContext) -> bool:
    """Return whether a relay with the same certificate answers at a URL."""
    place = urllib.parse.urlsplit(url)
    try:
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(place.hostname, place.port, ssl=context), ANSWER
        )
    except (OSError, ValueError, asyncio.TimeoutError):
        return False
    writer.close()
    return True


async def _relay(tunnel: str, identity: str, sign: AddressFile, host: str) -> None:
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
    sign.put(url)
    print(url, flush=True)
    keeping = asyncio.create_task(sign.keep(url, _context(identity, ssl.PROTOCOL_TLS_CLIENT)))
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    keeping.cancel()
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
    copies = [asyncio.create_task(_copy(reader, back)), asyncio.create_task(_copy(there, writer))]
    await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    for copy in copies:
        copy.cancel()
    back.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.TimeoutError):
        while data := await asyncio.wait_for(source.read(BLOCK), SILENCE):
            target.write(data)
            await target.drain()
