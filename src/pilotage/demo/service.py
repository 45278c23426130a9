"""A real server in its own process: start it, wait for it, and stop it with every pilot that it started."""

import contextlib
import ctypes
import os
import random
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
PATIENCE = 180.0
"""Seconds within which the server must answer, even on a busy machine."""

PORTS = range(10_000, 20_000)
"""Ports that Linux uses for no outgoing connection."""

GRACE = 5.0
"""Seconds for processes to end by themselves before they are killed."""

_PR_SET_CHILD_SUBREAPER = 36


class ServerError(Exception):
    """The server did not start, or ended early. The end of its log follows."""


class DemoServer:
    """A running server, called with its operator's token."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, home: Path) -> None:
        self._process = process
        self.url = url
        self._log = home / LOG
        self._token = home / "token"
        self._client = httpx.Client(base_url=f"{url}/api/v1", timeout=30, trust_env=False)

    def get(self, path: str, **parameters: str | int) -> Any:
        """Call the API. Raises ``ServerError`` for anything but success."""
        return self._send(self._client.build_request("GET", path, params=parameters))

    def post(self, path: str, document: object) -> Any:
        """Send a document to the API."""
        return self._send(self._client.build_request("POST", path, json=document))

    def _send(self, request: httpx.Request) -> Any:
        try:
            response = self._client.send(request)
        except httpx.TransportError as error:
            self.check()
            raise ServerError(f"{request.method} {request.url}: no answer: {error}") from error
        if not response.is_success:
            raise ServerError(f"{request.method} {request.url}: {response.text}")
        return response.json()

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def token(self) -> str:
        """The token of its operator."""
        return self._token.read_text().strip()

    def answers(self) -> bool:
        """Return whether the server answers yet. Raises ``ServerError`` if it never will."""
        self.check()
        if not self._token.exists():
            return False
        try:
            self._client.get("/health", timeout=2).raise_for_status()
        except httpx.TransportError:
            return False
        self._client.headers["Authorization"] = f"Bearer {self.token}"
        return True

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def check(self) -> None:
        """Raises ``ServerError`` if the process has ended."""
        if self._process.poll() is not None:
            raise ServerError(f"the server ended with {self._process.returncode}:\n{self.last_words()}")

    def last_words(self) -> str:
        """Return the end of the server's log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])


@contextlib.contextmanager
def running(
    federation: Path | None, home: Path, port: int | None, store: str | None = None, *options: str
) -> Iterator[DemoServer]:
    """Run a server with its own home until the block ends.

    It loads ``federation`` first. ``store`` is the address of its store; by default one in its home.
    ``options`` are further options of ``pilotage up``.
    """
    port = port or free_port()
    home.mkdir(parents=True, exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PILOTAGE_")}
    environment = inherited | {
        "PILOTAGE_HOME": str(home),
        "PILOTAGE_URL": f"http://127.0.0.1:{port}",
        "PILOTAGE_STORE": store or "",
    }
    declared = [str(federation)] if federation else []
    command = [sys.executable, "-m", "pilotage.cli", "up", *declared, *options]
    with _adopted() as family, (home / LOG).open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        server = DemoServer(process, f"http://127.0.0.1:{port}", home)
        itself = psutil.Process(process.pid)
        try:
            if not _wait(server.answers, PATIENCE):
                raise ServerError(
                    f"the server did not answer within {PATIENCE:.0f} s:\n{server.last_words()}"
                )
            yield server
        finally:
            server.close()
            stop(process, lambda: family() - {itself})


def free_port() -> int:
    """Return a free port of the loopback interface. Raises ``ServerError``."""
    # Do not use the kernel's choice: before the server takes it, an outgoing connection might get it.
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise ServerError(f"no port of {PORTS[0]} to {PORTS[-1]} is free")


def stop(process: subprocess.Popen[bytes], started: Callable[[], set[psutil.Process]]) -> None:
    """End a server and everything it ``started``: politely, and after ``GRACE`` by force.

    Its pilots go first, while the server can still hear them; then the server; then late processes.
    """
    pilots = started()
    _send(pilots, signal.SIGTERM)
    _wait(lambda: not pilots & started(), GRACE)
    process.terminate()
    if not _wait(lambda: process.poll() is not None, GRACE):
        process.kill()
    process.wait()
    _send(started(), signal.SIGTERM)
    if not _wait(lambda: not started(), GRACE):
        _wait(lambda: not _send(started(), signal.SIGKILL), GRACE)


@contextlib.contextmanager
def _adopted() -> Iterator[Callable[[], set[psutil.Process]]]:
    """Return the processes started within the block that still run, at any depth, including orphans.

    A pilot outlives its server. This process becomes the parent of orphans.
    """
    myself = psutil.Process()
    before = set(myself.children(recursive=True))
    _set_subreaper(True)
    try:
        yield lambda: {
            process for process in myself.children(recursive=True) if process not in before and _runs(process)
        }
    finally:
        _set_subreaper(False)


def _set_subreaper(on: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(on)) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _runs(process: psutil.Process) -> bool:
    """Return whether a process still runs. Collect it if it is our ended child."""
    try:
        if process.status() != psutil.STATUS_ZOMBIE:
            return True
        if process.ppid() == os.getpid():
            process.wait(timeout=0)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        return False
    return False


def _send(processes: set[psutil.Process], number: int) -> int:
    """Send a signal to each process. Return their number."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return len(processes)


def _wait(holds: Callable[[], bool], timeout: float) -> bool:
    until = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
