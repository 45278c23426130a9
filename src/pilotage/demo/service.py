"""A real server of its own: started as a process, waited for, and stopped with every pilot it started."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

LOG = "server.log"
PATIENCE = 60.0
"""How long the server may take until it answers, in s."""


class ServerError(Exception):
    """The server did not start, or ended early; what it said last follows."""


class Server:
    """A running server, spoken to as its operator."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, home: Path) -> None:
        self._process = process
        self._log = home / LOG
        self._token = home / "token"
        self._client = httpx.Client(base_url=f"{url}/api/v1", timeout=30, trust_env=False)

    def get(self, path: str, **parameters: str | int) -> Any:
        """What the API answers. Raises :class:`ServerError` for anything but success."""
        return self._answer(self._client.get(path, params=parameters))

    def post(self, path: str, document: object) -> Any:
        """The same for a document that is sent."""
        return self._answer(self._client.post(path, json=document))

    def _answer(self, response: httpx.Response) -> Any:
        if not response.is_success:
            raise ServerError(f"{response.request.method} {response.request.url}: {response.text}")
        return response.json()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def answers(self) -> bool:
        """Whether it answers yet. Raises :class:`ServerError` where it never will."""
        self.check()
        if not self._token.exists():
            return False
        try:
            self._client.get("/health", timeout=2).raise_for_status()
        except httpx.TransportError:
            return False
        self._client.headers["Authorization"] = f"Bearer {self._token.read_text().strip()}"
        return True

    def close(self) -> None:
        """Let go of its connections."""
        self._client.close()

    def check(self) -> None:
        """Raises :class:`ServerError` where the process has ended."""
        if self._process.poll() is not None:
            raise ServerError(f"the server ended with {self._process.returncode}:\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of the server's log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])


@contextlib.contextmanager
def running(federation: Path, home: Path, port: int | None, store: str | None = None) -> Iterator[Server]:
    """A server for one federation with its own home, until the block is left, however it is.

    ``store`` is the address of its store; without, it has its own in its home.
    """
    port = port or free_port()
    home.mkdir(parents=True, exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PILOTAGE_")}
    environment = inherited | {
        "PILOTAGE_HOME": str(home),
        "PILOTAGE_URL": f"http://127.0.0.1:{port}",
        "PILOTAGE_STORE": store or "",
    }
    command = [sys.executable, "-m", "pilotage.cli", "up", str(federation)]
    with (home / LOG).open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    server = Server(process, f"http://127.0.0.1:{port}", home)
    try:
        if not _wait(server.answers, PATIENCE):
            raise ServerError(f"the server did not answer within {PATIENCE:.0f} s:\n{server.last_words()}")
        yield server
    finally:
        server.close()
        stop(process)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(process: subprocess.Popen[bytes], grace: float = 10.0) -> None:
    """End a server and all that it started: politely, and after ``grace`` s by force.

    Its pilots go first, while there is still somebody to tell; those started meanwhile are found too.
    """
    started = _descendants(process.pid)
    _send(started, signal.SIGTERM)
    _wait(lambda: not _alive(started), grace / 2)
    started |= _descendants(process.pid)
    process.terminate()

    def ended() -> bool:
        started.update(_descendants(process.pid))
        return process.poll() is not None

    if not _wait(ended, grace):
        process.kill()
    process.wait()
    _send(_alive(started), signal.SIGTERM)
    _wait(lambda: not _alive(started), grace / 2)
    for left in _alive(started):
        _send({left, *_descendants(left.pid)}, signal.SIGKILL)


def _descendants(pid: int) -> set[psutil.Process]:
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def _alive(processes: set[psutil.Process]) -> set[psutil.Process]:
    return {process for process in processes if _runs(process)}


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _send(processes: set[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _wait(holds: Callable[[], bool], timeout: float) -> bool:
    until = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
