"""A private XRootD server: root:// and http:// on loopback, with third-party copies of both."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.conftest import locked_port
from tests.movers.servers import logged, program, running

CONFIGURATION = """\
all.export /
oss.localroot {root}
all.adminpath {place}/admin
all.pidpath {place}/run
xrd.port {port}
xrd.allow host localhost
xrd.tls {place}/host.pem {place}/host.key
xrd.tlsca certdir {place}/ca
xrd.protocol XrdHttp:{http_port} libXrdHttp.so
http.exthandler xrdtpc libXrdHttpTPC.so
http.selfhttps2http no
http.listingdeny no
xrootd.chksum adler32
ofs.tpc ttl 60 120 xfr 20 autorm pgm {xrdcp} --server
"""

CRASHES = [-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS]
"""Exit codes of a server that crashed: its fault, not ours."""


@dataclass(frozen=True)
class XRootD:
    """Its addresses, and the directory that it serves.

    The addresses are numbers: third-party copies by root:// between two servers at ``localhost`` never end.
    """

    root: Path
    port: int
    http_port: int
    pid: int = 0

    @property
    def url(self) -> str:
        return f"root://127.0.0.1:{self.port}/"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"


@contextmanager
def xrootd(root: Path, place: Path, more: str = "") -> Iterator[XRootD]:
    """Serve a directory until the end of the context, with ``more`` directives.

    Skips the test where there is no XRootD.

    Its HTTP copies need TLS to be set up, also where nobody uses it; it runs as no superuser.
    """
    server = program("xrootd", "apt-get install xrootd-server xrootd-plugins xrootd-client")
    for name in ("admin", "run", "ca"):
        (place / name).mkdir(parents=True)
    (place / "ca").chmod(0o755)  # whatever this process's mask: it trusts none that others may write
    _certificate(place)
    with locked_port() as port, locked_port() as http_port:
        yield from _served(server, XRootD(root, port, http_port), place, more)


def _served(server: str, made: XRootD, place: Path, more: str) -> Iterator[XRootD]:
    root = made.root
    values = {"root": root, "place": place, "port": made.port, "http_port": made.http_port}
    copier = program("xrdcp", "apt-get install xrootd-client")
    (place / "xrootd.cfg").write_text(CONFIGURATION.format(xrdcp=copier, **values) + more)
    command = [server, "-l", str(place / "xrootd.log"), "-c", str(place / "xrootd.cfg")]
    if os.getuid() == 0:
        command = [program("setpriv", "apt-get install util-linux"), *_as("xrootd", place, root), *command]
    with running(command, made.http_port, place / "output") as process:
        try:
            yield replace(made, pid=process.pid)
        finally:
            if process.poll() in CRASHES:
                pytest.skip(f"XRootD crashed with {process.returncode}: {logged(place / 'output')}")


def _as(user: str, *places: Path) -> list[str]:
    """Options of ``setpriv`` that run a command as another user, who owns these places then."""
    try:
        subprocess.run(["chown", "-R", f"{user}:", *map(str, places)], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        pytest.skip(f"no user {user}, and XRootD runs as no superuser: apt-get install xrootd-server")
    for place in places:
        for folder in (place, *place.parents):
            if folder.stat().st_uid == os.getuid() and folder.parent != folder:
                folder.chmod(folder.stat().st_mode | 0o011)
    return [f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def _certificate(place: Path) -> None:
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout host.key -out host.pem"
    command = ["openssl", *words.split(), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, cwd=place)
    (place / "host.key").chmod(0o400)
    (place / "host.pem").chmod(0o644)
    name = ["openssl", "x509", "-hash", "-noout", "-in", str(place / "host.pem")]
    found = subprocess.run(name, check=True, capture_output=True, text=True).stdout.strip()
    (place / f"ca/{found}.0").write_bytes((place / "host.pem").read_bytes())
