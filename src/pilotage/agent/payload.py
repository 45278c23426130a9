"""The agent's handle on a payload: start it under a supervisor, renew its lease, stop it, await its end."""

from __future__ import annotations

import ast
import asyncio
import errno
import importlib.util
import logging
import marshal
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .machine import MEGABYTE, descendants, kill, now
from .view import UNCONTAINED, View, unseen
from .wire import Point

log = logging.getLogger(__name__)
MOST_PROCESSES = 10_000
"""Processes of one payload: more of them are a payload out of control."""
LONGEST_ANSWER = 1 << 20
"""Bytes of a line that a supervisor tells."""
MOST_INTERPRETERS = 4
"""Scripts that name each other as their interpreter, as far as kernels follow them."""
OVERDUE = 10.0
"""Seconds that a supervisor may take to kill its payload before it is killed itself."""
_MODULES = (
    "machine",
    "trees",
    "network_use",
    "timeline",
    "control_group",
    "landlock",
    "namespaces",
    "containment",
    "supervisor",
)
"""Modules that a supervisor consists of, each after those that it imports."""
_BOOT = """\
import marshal, os, sys
def read(size):
    data = b""
    while len(data) < size:
        data += os.read(pipe, size - len(data)) or sys.exit("the agent is gone")
    return data
pipe = int(sys.argv[1])
package = sys.modules["agent"] = type(sys)("agent")
for name, code in marshal.loads(read(int(read(8)))):
    module = sys.modules["agent." + name] = type(sys)("agent." + name)
    module.__package__ = "agent"
    setattr(package, name, module)
    exec(code, module.__dict__)
sys.modules["agent." + sys.argv[2]].main(pipe, sys.argv[3])
"""
# Isolated and without site-packages: nothing of the user's is imported, and it starts faster.
_PYTHON = (sys.executable, "-I", "-S", "-c", _BOOT)


@cache
def _program() -> bytes:
    """The supervisor's compiled modules as its start-up code reads them.

    They go through a pipe because the agent may be one zip file, from which Python can start nothing else,
    and because compiling them again for each payload would take longer than starting it.
    """
    package = __name__.rpartition(".")[0]
    found = []
    for name in _MODULES:
        spec = importlib.util.find_spec(f"{package}.{name}")
        found.append((name, spec.loader.get_code(spec.name)))  # type: ignore[union-attr]
    return _framed(tuple(found))


def _framed(value: Any) -> bytes:
    document = marshal.dumps(value)
    return b"%08d" % len(document) + document


@dataclass(frozen=True)
class Ended:
    """The end of a payload: ``error`` is empty when it ended well; times in s, ``max_rss`` in MB.

    ``max_workdir`` is what the payload added to its directory at most, in MB, ``disk_io`` what it read from
    disks and wrote to them, in kB/s; None where it was not measured. ``points`` are its time line. ``note``
    says what is worth knowing of one that ended well all the same.
    """

    error: str = ""
    exit_code: int | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    max_rss: float = 0.0
    max_workdir: float = 0.0
    disk_io: float | None = None
    points: tuple[Point, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Order:
    """A command, its environment and directory, and its limits.

    Wall time is in s, memory and what is added to the directory in MB, 0 for none. ``keep`` leaves the
    directory there though the agent is gone, ``cut`` drops the middle of very long standard output and error.
    Processes that are left behind fail it where it is ``strict_processes``; they are killed in any case.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    walltime: float = 0
    memory: float = 0
    workdir: float = 0
    processes: int = MOST_PROCESSES
    keep: bool = False
    cut: bool = False
    strict_processes: bool = False
    cores: int = 1
    group: Mapping[str, Any] = field(default_factory=dict)
    view: View = UNCONTAINED

    def document(self, lease_end: float) -> bytes:
        """The order as the supervisor reads it."""
        return _framed(
            {
                "command": tuple(self.command),
                "environment": dict(self.environment),
                "directory": str(self.directory),
                "walltime": float(self.walltime),
                "memory": int(self.memory * MEGABYTE),
                "workdir": int(self.workdir * MEGABYTE),
                "processes": self.processes,
                "lease_end": lease_end,
                "keep": self.keep,
                "cut": self.cut,
                "cores": self.cores,
                "group": dict(self.group),
                "containment": self._containment(),
            }
        )

    def _containment(self) -> dict[str, Any]:
        view = self.view
        with_program = view.way == "bubblewrap"
        return {
            "way": view.way,
            "binds": tuple((bind.source, bind.target, bind.writable) for bind in view.binds),
            "links": tuple(view.links),
            "bubblewrap": view.bubblewrap,
            "python": _PYTHON if with_program else (),
            "program": _program() if with_program else b"",
        }


class Payload:
    """A payload below its supervisor process; ``lost`` when that ended without telling how."""

    def __init__(self, order: Order, lease_end: float) -> None:
        self.order = order
        self.lost = False
        self._points: tuple[Point, ...] = ()
        self._lease_end = lease_end
        self._started = now()
        self._stop_reason = ""
        self._stop_by = float("inf")
        self._process = subprocess.Popen(
            [*_PYTHON, "0", "supervisor", order.directory.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
        )
        self._tell(_program() + order.document(lease_end))
        if self._process.stdin:
            # A supervisor that was stopped does not read: later messages must not block the agent with it.
            os.set_blocking(self._process.stdin.fileno(), False)

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._process.pid

    def renew(self, lease_end: float) -> None:
        """Let the payload live until then; small gains are not worth a message."""
        if lease_end > self._lease_end + 0.5 and not self._stop_reason:
            self._lease_end = lease_end
            self._tell(b"%f\n" % lease_end)

    def points_so_far(self) -> tuple[Point, ...]:
        """Return the time line as of the last time that this was asked, and have it told anew."""
        self._tell(b"points\n")
        return self._points

    def stop(self, reason: str) -> None:
        """Kill the payload; :meth:`ended` then tells ``reason``."""
        if not self._stop_reason:
            self._stop_reason = reason
            self._stop_by = now()
            self._tell(b"stop\n")
            if self._process.stdin:
                self._process.stdin.close()

    async def ended(self) -> Ended:
        """Wait until the supervisor has ended; unless it is ``lost``, all of the payload has ended too."""
        answer = asyncio.create_task(self._read())
        # The supervisor acts by itself; this is for one that cannot, because it was stopped or swaps.
        while not (await asyncio.wait([answer], timeout=1))[0]:
            if now() > min(self._stop_by, self._lease_end, self._walltime_end()) + OVERDUE:
                log.error("supervisor %d does not act: killed", self.pid)
                kill(self.pid)
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()
        result = answer.result()
        if result is not None:
            return self._as_ended(result)
        self.lost = True
        error = self._stop_reason or "supervisor killed; its payload was killed with it"
        return Ended(error=error, wall_seconds=round(now() - self._started, 3))

    def _walltime_end(self) -> float:
        return self._started + self.order.walltime if self.order.walltime else float("inf")

    def _tell(self, message: bytes) -> None:
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            return
        try:
            while message:
                message = message[os.write(pipe.fileno(), message) :]
        except (BrokenPipeError, BlockingIOError):
            log.warning("supervisor %d does not listen", self.pid)

    async def _read(self) -> dict[str, Any] | None:
        """Take in what the supervisor tells until it has ended; None where that was not the result."""
        pipe = self._process.stdout
        if pipe is None:
            return None
        reader = asyncio.StreamReader(limit=LONGEST_ANSWER)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        result: dict[str, Any] | None = None
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                told = ast.literal_eval(line.decode())
                if isinstance(told, dict):
                    result = told
                else:
                    self._points = tuple(told)
        finally:
            transport.close()
        return result

    def _as_ended(self, result: dict[str, Any]) -> Ended:
        status = result["status"]
        if result["group_fault"]:
            log.warning("%s: %s", self.order.directory.name, result["group_fault"])
        return Ended(
            error=self._error(result["cause"], result["value"], status),
            exit_code=_exit_code(result["cause"], status),
            cpu_seconds=round(result["cpu"], 3),
            wall_seconds=round(result["wall"], 3),
            max_rss=round(result["rss"] / MEGABYTE, 1),
            max_workdir=round(result["disk"] / MEGABYTE, 3),
            note=_left_behind(result["value"]) if result["cause"] == "processes" else "",
            disk_io=round(result["io"] / 1000 / max(result["wall"], 1.0), 3),
            points=tuple(result["points"]),
        )

    def _error(self, cause: str, value: Any, status: int | None) -> str:
        if cause in ("not contained", "not started"):
            return _start_error(cause, value, self.order)
        if cause == "unmeasured":
            return f"work directory cannot be held to its limit: {value}"
        order, megabytes, group = self.order, value / MEGABYTE, "its control group"
        exited = "" if status is None else _exit_error(os.waitstatus_to_exitcode(status))
        told: dict[str, str] = {
            "ended": exited,
            "stopped": self._stop_reason,
            "lease": "stopped by its pilot: no contact with the server for longer than the lease",
            "walltime": f"walltime exceeded: {value:.0f} s of {order.walltime:.0f}",
            "memory": f"memory exceeded: {megabytes:.0f} MB of {order.memory:.0f}",
            "group memory": f"memory exceeded: {megabytes:.0f} MB of {order.memory:.0f}, killed by {group}",
            "group processes": f"too many processes: with threads {value:.0f} at once, held by {group}",
            "work directory": f"work directory exceeded: {megabytes:.0f} MB of {order.workdir:.0f}",
            "too many processes": f"too many processes: {value:.0f} of {order.processes} at once",
            "processes": exited or (_left_behind(value) if order.strict_processes else ""),
        }
        return told[cause]


def _left_behind(count: float) -> str:
    return f"left processes behind: {count:.0f}; they were killed"


def _exit_code(cause: str, status: int | None) -> int | None:
    """The payload's; as a shell's where there is no such command; none where the payload never ran."""
    if cause == "not started":
        return 127
    return None if status is None else os.waitstatus_to_exitcode(status)


def _start_error(cause: str, value: Any, order: Order) -> str:
    if cause == "not contained":
        return f"payload cannot be contained by {order.view.way}: {value}"
    hint = hidden_hint(order) if value in (errno.ENOENT, errno.EACCES, errno.ENOTDIR) else ""
    return f"command {order.command[0]!r} cannot be started: {os.strerror(value)}{hint}"


def hidden_hint(order: Order) -> str:
    """Say which file that the command needs is there, but hidden from it; empty where that is not why."""
    if order.view.way == "none":
        return ""
    for path, what in _needed(order):
        if hidden := unseen(order.view, path):
            return (
                f": {what}{hidden} is there at this node, but contained payloads do not see it; the queue's "
                "option computing_element.readable_paths shows it to them "
                f"(readable_paths: [{hidden.parent}])"
            )
    return ""


def _needed(order: Order) -> Iterator[tuple[Path, str]]:
    """The program of an order, and the interpreters that scripts name in their first lines."""
    # Where the node's own user would find it; a name without a slash is looked for in the search path.
    found = shutil.which(order.command[0], path=order.environment.get("PATH", ""))
    path = order.directory / (found or order.command[0])
    what = ""
    for _ in range(MOST_INTERPRETERS):
        if not path.exists():
            return
        yield path, what
        with path.open("rb") as file:
            first = file.readline(1000)
        if not first.startswith(b"#!"):
            return
        words = first[2:].decode(errors="replace").split()
        if len(words) > 1 and Path(words[0]).name == "env":
            named = shutil.which(words[1], path=order.environment.get("PATH", ""))
        else:
            named = words[0] if words else None
        if not named:
            return
        path, what = Path(named), "its interpreter "


def _exit_error(code: int) -> str:
    if code >= 0:
        return f"payload exited with code {code}" if code else ""
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"


async def sweep(supervisors: Callable[[], set[int]]) -> None:
    """Kill the processes left by supervisors that were killed: each child of the agent that is none itself.

    The agent adopts orphans (:func:`machine.guard`), so all that is below it and below no supervisor was
    theirs. Returns when nothing of that is left.
    """
    while strays := _children() - supervisors():
        for stray in strays:
            for process in [stray, *descendants(stray)]:
                kill(process)
            with suppress(ChildProcessError):
                os.waitpid(stray, os.WNOHANG)
        await asyncio.sleep(0.005)


def _children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        found.update(int(child) for child in (thread / "children").read_text().split())
    return found
