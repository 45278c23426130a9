"""Pilots as processes of the server's own machine: they outlive the server, and leave nothing when ended."""

import os
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs
import psutil

from pilotage.ports.computing import PilotOrder, PilotStatus

PASSED_ON = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
OPTIONS = {"directory", "environment"}
GRACE = 3.0
"""Seconds that a cancelled pilot has to kill its payloads and say goodbye."""


class Reference(NamedTuple):
    """A process as no other ever was: pid, start in ticks since the machine's boot, boot and machine."""

    pid: int
    start: int
    boot: str
    host: str

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """The reverse of str(). Raises ValueError."""
        process, _, host = text.partition("@")
        pid, start, boot = process.split(".")
        return cls(int(pid), int(start), boot, host)

    @classmethod
    def of(cls, pid: int) -> "Reference | None":
        """The process that has this pid now, None where there is none that runs."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, *numbers = text.rpartition(")")[2].split()
        return None if state in "ZX" else cls(pid, int(numbers[18]), _boot(), socket.gethostname())

    def __str__(self) -> str:
        return f"{self.pid}.{self.start}.{self.boot}@{self.host}"


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]


def _reap(pid: int) -> None:
    """Wait for a child so that no zombie stays; whoever cancelled it may have done so already."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _is_variable(item: tuple[object, object]) -> bool:
    name, value = item
    if not isinstance(name, str) or not name or not isinstance(value, str | int | float):
        return False
    return "=" not in name and "\0" not in f"{name}{value}"


def _command(order: PilotOrder, place: Path) -> list[str]:
    options = {
        "url": order.server_url,
        "cores": order.cores,
        "memory": order.memory,
        "walltime": order.walltime,
        "slots": order.slots,
        "directory": place,
    }
    told = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-I", "-m", "pilotage.agent", *told]


class Process:
    """The computing element kind ``process``. Linux only.

    Options: ``directory``, below which every pilot has its own with its log ``agent.log``; ``environment``,
    variables that agents are given beside the few of :data:`PASSED_ON`.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        unknown = sorted(set(options) - OPTIONS)
        if unknown:
            raise ValueError(f"process: unknown options {unknown}; known are {sorted(OPTIONS)}")
        default = platformdirs.user_state_path("pilotage") / "pilots"
        directory, environment = options.get("directory", str(default)), options.get("environment", {})
        if not isinstance(directory, str) or not directory or "\0" in directory:
            raise ValueError(f"process: directory {directory!r} is not a path")
        if not isinstance(environment, Mapping) or not all(map(_is_variable, environment.items())):
            raise ValueError("process: environment is not a mapping of names to text or numbers")
        self._directory = Path(directory).expanduser().resolve()
        self._environment = {name: str(value) for name, value in environment.items()}

    def submit(self, order: PilotOrder) -> str:
        """Start the agent in a session of its own. It reads its token from a pipe, which leaves no trace."""
        place = Path(order.working_directory or self._directory).resolve() / f"pilot-{order.pilot}"
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        token, pipe = os.pipe()
        try:
            # A pipe holds far more than a token: this returns before anybody reads.
            os.write(pipe, order.token.encode())
            pid = os.posix_spawn(
                sys.executable,
                _command(order, place),
                self._inherited(),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, token, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(place / "agent.log"), log, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=(),
            )
        finally:
            os.close(token)
            os.close(pipe)
        reference = Reference.of(pid)
        threading.Thread(target=_reap, args=(pid,), name=f"reap-{pid}", daemon=True).start()
        if reference is None:
            raise OSError(f"pilot {order.pilot} ended at once; see {place / 'agent.log'}")
        return str(reference)

    def poll(self, references: Iterable[str]) -> dict[str, PilotStatus]:
        """Running or ended; unknown where the pilot runs on another machine."""
        return {text: self._status(text) for text in references}

    def cancel(self, reference: str) -> None:
        """Ask the agent to end, then kill what is left of it and of all that it started."""
        if self._status(reference) != "running":
            return
        try:
            agent = psutil.Process(Reference.parse(reference).pid)
            tree = [*agent.children(recursive=True), agent]
            agent.terminate()
        except psutil.NoSuchProcess:
            return
        _, alive = psutil.wait_procs(tree, timeout=GRACE)
        for process in reversed(alive):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(alive, timeout=GRACE)

    def _inherited(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return {**inherited, **self._environment}

    def _status(self, text: str) -> PilotStatus:
        try:
            reference = Reference.parse(text)
        except ValueError:
            return "unknown"
        if reference.host != socket.gethostname():
            return "unknown"
        return "running" if Reference.of(reference.pid) == reference else "ended"
