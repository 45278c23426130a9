"""Pilots as processes on the server's own machine. They outlive the server, and leave nothing but results."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import platformdirs
import psutil
from cachetools import FIFOCache

from pilotage.adapters.computing.agent_file import agent_options
from pilotage.adapters.computing.options import LocalPath, PilotOptions, parse
from pilotage.adapters.computing.process.leftovers import Leftovers, remove
from pilotage.adapters.computing.process.local_spool import LocalSpool
from pilotage.ports.bounded_process import inherited, is_hidden, process_start
from pilotage.ports.computing import Capacity, PilotOrder, PilotStatus, Submitted
from pilotage.settings import Settings

PASSED_ON = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
PROCESS = "process"
"""The file with a pilot's reference, in its directory."""

GRACE = 10.0
"""Seconds for cancelled pilots to kill their payloads and tell the server, even on a busy machine."""

MOST_EXITS = 10_000
"""Most exit codes to remember, latest first."""


class ProcessReference(NamedTuple):
    """A unique process: pid, start time in ticks since boot, boot and machine."""

    pid: int
    start: int
    boot: str
    host: str

    @classmethod
    def parse(cls, text: str) -> "ProcessReference":
        """Parse the text form. Raises ValueError."""
        process, _, host = text.partition("@")
        pid, start, boot = process.split(".")
        return cls(int(pid), int(start), boot, host)

    @classmethod
    def of(cls, pid: int) -> "ProcessReference | None":
        """Return the running process with this pid, or None."""
        # The start is a part of it, because the system reuses pids.
        start = process_start(pid)
        return None if start is None else cls(pid, start, _boot(), socket.gethostname())

    def state(self) -> Literal["running", "hidden", "ended"]:
        """Return the state of this process of this machine. Agents are hidden where ``/proc`` hides
        processes that no tracer may see, as ``ProtectProc=`` of systemd lets it."""
        if ProcessReference.of(self.pid) == self:
            return "running"
        return "hidden" if self.boot == _boot() and is_hidden(self.pid) else "ended"

    def __str__(self) -> str:
        return f"{self.pid}.{self.start}.{self.boot}@{self.host}"


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions(PilotOptions):
    """Options of pilots on the server's machine. Their environment has the variables in ``PASSED_ON``,
    too."""

    directory: LocalPath = ""
    """Where every pilot gets a directory with its name and its log ``agent.log``; empty: a usual one."""


class Process:
    """The computing element kind ``process``, on Linux only. Its options are ``ProcessOptions``."""

    end_doubt = 0.0

    def __init__(self, options: Mapping[str, Any]) -> None:
        parsed = parse("process", ProcessOptions, options)
        default = platformdirs.user_state_path("pilotage") / "pilots"
        self._directory = Path(parsed.directory or default).resolve()
        self._environment = {name: str(value) for name, value in parsed.environment.items()}
        self._spool = LocalSpool(self._directory / "left", parsed.results_room, parsed.results_days)
        self._lock = threading.Lock()
        self._exits: FIFOCache[str, int] = FIFOCache(MOST_EXITS)
        self._leftovers = Leftovers(self._directory, _has_ended)

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Start an agent for each order in its own session, unless it already runs."""
        return [self._submit(order) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Return whether pilots run or have ended, with exit codes of children.

        A pilot of another machine is unknown.
        """
        statuses = {text: self._status(text) for text in references}
        for name in self._spool.pilots():
            text = _written(self._directory / name)
            if text in statuses and statuses[text].state == "ended":
                statuses[text] = replace(statuses[text], results=self._spool.of(name))
        return statuses

    def read_left(self, place: str, number: int, start: int, size: int) -> str:
        """See ``ResultsKeeper``."""
        return self._spool.read(place, number, start, size)

    def drop_left(self, places: Collection[str]) -> None:
        """See ``ResultsKeeper``."""
        self._spool.drop(places)

    def cancel(self, references: Collection[str]) -> None:
        """Ask the agents to end, then kill their remaining processes and everything that they started."""
        tree: list[psutil.Process] = []
        for text in references:
            if self._status(text).state == "running":
                with suppress(psutil.NoSuchProcess):
                    agent = psutil.Process(ProcessReference.parse(text).pid)
                    # List them before the agent ends: later its children have no parent.
                    tree += [*agent.children(recursive=True), agent]
                    agent.terminate()
        _, alive = psutil.wait_procs(tree, timeout=GRACE)
        for process in reversed(alive):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=GRACE)
        # Agents that were killed, now or before, leave their work directories.
        self._leftovers.sweep(lambda place: _written(place) in references)

    def capacity(self) -> Capacity:
        """Return that nothing waits here.

        The number of running pilots is unknown, because other servers may have started some.
        """
        return Capacity(waiting=0)

    def _submit(self, order: PilotOrder) -> Submitted:
        place = self._directory / order.name
        self._leftovers.search()
        if there := _running(place):
            return Submitted(reference=there)
        try:
            pid = self._start(order, place)
            # A repeated order finds the pilot by this file, even on another server after this one has ended.
            (place / PROCESS).write_text(f"{ProcessReference.of(pid) or ''}\n")
        except OSError as error:
            return Submitted(error=f"pilot {order.name} cannot be started: {error}")
        reference = ProcessReference.of(pid)
        threading.Thread(
            target=self._reap, args=(pid, str(reference), place), name=f"reap-{pid}", daemon=True
        ).start()
        if reference is None:
            return Submitted(error=f"pilot {order.name} ended at once; see {place / 'agent.log'}")
        return Submitted(reference=str(reference))

    def command(self, order: PilotOrder, place: Path) -> list[str]:
        """Return the command that becomes a pilot in its directory."""
        arguments = [*agent_options(order), f"--directory={place}"]
        # Pilots share this machine with the server: payloads must not see their directories, or the server's
        # token.
        arguments += [f"--hide={folder}" for folder in (place.parent, Settings.read().home)]
        arguments += self._spool.agent_options(order.name)
        return [sys.executable, "-I", "-m", "pilotage.agent", *arguments]

    def _start(self, order: PilotOrder, place: Path) -> int:
        """Start the agent in its own session. It reads its token from a pipe, which leaves no trace."""
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        token, pipe = os.pipe()
        try:
            # A pipe holds far more than a token, so this does not wait for a reader.
            os.write(pipe, order.token.encode())
            return os.posix_spawn(
                sys.executable,
                self.command(order, place),
                {**inherited(PASSED_ON), **self._environment},
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

    def _reap(self, pid: int, reference: str, place: Path) -> None:
        """Wait for a child, so that no zombie stays. Keep its exit code, and remove its remains."""
        try:
            _, status = os.waitpid(pid, 0)
        except ChildProcessError:  # psutil reaps children, too, when it waits for them
            return
        with self._lock:
            self._exits[reference] = os.waitstatus_to_exitcode(status)
        if status:
            # Its supervisors remove the same, unless they were killed, too.
            remove(place)

    def _status(self, text: str) -> PilotStatus:
        try:
            reference = ProcessReference.parse(text)
        except ValueError:
            return PilotStatus(state="unknown", reason="not a reference of this kind")
        if reference.host != socket.gethostname():
            return PilotStatus(state="unknown", reason=f"runs on {reference.host}")
        state = reference.state()
        if state == "hidden":
            return PilotStatus(state="unknown", reason=f"/proc hides process {reference.pid} from the server")
        if state == "running":
            return PilotStatus(state="running")
        with self._lock:
            code = self._exits.get(text)
        return PilotStatus(state="ended", reason=_reason(code), exit_code=code)


def _written(place: Path) -> str:
    """Return the reference in a pilot's directory; empty if there is none."""
    try:
        return (place / PROCESS).read_text().strip()
    except (OSError, ValueError):
        return ""


def _running(place: Path) -> str:
    """Return the reference of the pilot that runs in a directory; empty if there is none."""
    text = _written(place)
    try:
        reference = ProcessReference.parse(text)
    except ValueError:
        return ""
    return "" if reference.state() == "ended" else text


def _has_ended(place: Path) -> bool:
    """Return whether a directory belongs to a pilot of this machine that has ended."""
    try:
        reference = ProcessReference.parse(_written(place))
    except ValueError:
        return False
    return reference.host == socket.gethostname() and reference.state() == "ended"


def _reason(code: int | None) -> str:
    """Return how a process ended, given its exit code if known."""
    if code is None:
        return ""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"
