"""An OpenSSH server on loopback for this user, with keys of its own, whose connections can be cut."""

import getpass
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.conftest import locked_port
from tests.movers.servers import program, running

SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {place}/host
PidFile none
AuthorizedKeysFile {place}/id.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp{flags}
"""

EXTENSIONS = "posix-rename,statvfs,fstatvfs,hardlink,fsync,lsetstat,limits,expand-path,copy-data"


@dataclass(frozen=True)
class Sftp:
    """Its address, the options that lead there, and its process."""

    url: str
    options: dict[str, str]
    server: subprocess.Popen[bytes]

    def cut(self) -> None:
        """End every connection, and leave the server."""
        for process in psutil.Process(self.server.pid).children(recursive=True):
            process.kill()


@contextmanager
def sftp(place: Path, *, extensions: bool = True) -> Iterator[Sftp]:
    """Serve this machine's files until the end of the context, without OpenSSH's extensions if asked.

    Skips the test where there is no server.
    """
    server = program("sshd", "apt-get install openssh-server")
    place.mkdir(mode=0o755)
    for name in ("id", "host"):
        keygen = program("ssh-keygen", "apt-get install openssh-client")
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True)
    with locked_port() as port:
        yield from _served(server, port, place, "" if extensions else f" -P {EXTENSIONS}")


def _served(server: str, port: int, place: Path, flags: str) -> Iterator[Sftp]:
    (place / "config").write_text(SERVER.format(port=port, place=place, flags=flags))
    key = " ".join((place / "host.pub").read_text().split()[:2])
    (place / "known").write_text(f"[127.0.0.1]:{port} {key}\n")
    if getpass.getuser() == "root":
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    options = {"key_file": str(place / "id"), "known_hosts": str(place / "known"), "ssh_config": "/dev/null"}
    with running([server, "-D", "-e", "-f", str(place / "config")], port, place / "log") as process:
        made = Sftp(f"sftp://{getpass.getuser()}@127.0.0.1:{port}", options, process)
        try:
            yield made
        finally:
            made.cut()
