"""A private login node: OpenSSH's server on loopback, for this user, with keys of its own."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.conftest import locked_port
from tests.waiting import wait_for

from .slurm import PLACES

NEEDED = ("sshd", "ssh", "ssh-keygen")


def lacking() -> str:
    """Say what this machine lacks to run a login node; empty where it has all."""
    path = f"{os.environ.get('PATH', '')}:{PLACES}"
    missing = [name for name in NEEDED if not shutil.which(name, path=path)]
    return f"no {', '.join(missing)}: `make test-sites` installs them" if missing else ""


SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {place}/host
PidFile {place}/pid
AuthorizedKeysFile {place}/id.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
PrintMotd no
Subsystem sftp internal-sftp
PermitRootLogin prohibit-password
SetEnv {environment}
"""

CLIENT = """\
Host stranger
  UserKnownHostsFile /dev/null
Host cluster jumped stranger
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {place}/id
  IdentitiesOnly yes
  UserKnownHostsFile {place}/known_hosts
Host jumped
  ProxyJump cluster
"""


@dataclass
class LoginNode:
    """A server of SSH's own defaults: ten sessions of a connection, tunnels end on its loopback."""

    place: Path
    environment: Mapping[str, str]
    port: int
    server: subprocess.Popen[bytes] | None = None

    @property
    def options(self) -> dict[str, str]:
        """Options that lead here."""
        return {"ssh": "cluster", "ssh_config": str(self.place / "config")}

    def prepare(self) -> None:
        """Make keys and configurations."""
        for name in ("id", "host"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.place / name)]
            subprocess.run(command, check=True)
        user = pwd.getpwuid(os.getuid()).pw_name
        told = " ".join(
            f'{name}="{self.environment[name]}"'
            for name in ("SLURM_CONF", "PATH")
            if name in self.environment
        )
        (self.place / "home").mkdir()
        told += f' HOME="{self.place}/home"'  # a shell of this user's own settings may take long to start
        values = {"place": self.place, "port": self.port, "user": user, "environment": told}
        (self.place / "sshd_config").write_text(SERVER.format(**values))
        (self.place / "config").write_text(CLIENT.format(**values))
        key = " ".join((self.place / "host.pub").read_text().split()[:2])
        (self.place / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}\n")

    def start(self) -> None:
        """Start the server, or start it again."""
        program = shutil.which("sshd", path=self.environment["PATH"])
        assert program
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (self.place / "log").open("ab") as log:
            begin = log.tell()
            self.server = subprocess.Popen(
                [program, "-D", "-e", "-f", str(self.place / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(lambda: b"listening" in (self.place / "log").read_bytes()[begin:], "sshd listens")

    def cut(self) -> None:
        """End every connection, and leave the server."""
        assert self.server
        if self.server.poll() is not None:
            return  # it is away itself
        for process in psutil.Process(self.server.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name().startswith("sshd"):
                    process.kill()

    def kill(self) -> None:
        """``kill -9`` the server and every connection."""
        if self.server is not None:
            self.cut()
            self.server.send_signal(signal.SIGKILL)
            self.server.wait()


@contextlib.contextmanager
def login_node(environment: Mapping[str, str]) -> Iterator[LoginNode]:
    """A login node that runs until the end of the block."""
    with locked_port() as port:
        yield from _started(LoginNode(Path(tempfile.mkdtemp(prefix="pilotage-login-")), environment, port))


def _started(node: LoginNode) -> Iterator[LoginNode]:
    place = node.place
    try:
        node.prepare()
        node.start()
        yield node
    except BaseException:
        print((place / "log").read_text()[-3000:] if (place / "log").exists() else "")
        raise
    finally:
        node.kill()
        shutil.rmtree(place, ignore_errors=True)
