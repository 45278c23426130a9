"""The agent's handle on a payload: start it under a supervisor, renew its lease, stop it, wait for its
end."""

from __future__ import annotations

import ast
import asyncio
import errno
import importlib.util
import logging
import marshal
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from ..machine import MEGABYTE, descendants, kill, now
from ..wire import Point
from .hidden_programs import exit_hint, start_hint
from .oom_kills import memory_cause, oom_kills, out_of_memory
from .view import UNCONTAINED, View

log = logging.getLogger(__name__)
MOST_PROCESSES = 10_000
"""Most processes of one payload. A payload with more is out of control."""
LONGEST_ANSWER = 1 << 20
"""Longest line from a supervisor, in bytes."""
OVERDUE = 10.0
"""Seconds that a supervisor may take to kill its payload before the agent kills the supervisor."""
_KINDS = {
    **dict.fromkeys(("stopped", "lease"), "pilot"),
    **dict.fromkeys(("memory", "group memory"), "memory"),
    **dict.fromkeys(("group processes", "work directory", "too many processes"), "limit"),
    "slot memory": "slot-memory",
    "walltime": "walltime",
    "not started": "command",
    "not contained": "start",
}
"""The kind of a failed attempt as in ``Report``, by the cause of its payload's end."""
_MODULES = (
    "machine",
    "payload.trees",
    "payload.network_use",
    "payload.timeline",
    "payload.control_group",
    "payload.landlock",
    "payload.namespaces",
    "payload.containment",
    "payload.supervisor",
)
"""Modules of a supervisor, each after those that it imports."""
_BOOT = """\
import marshal, os, sys
def read(size):
    data = b""
    while len(data) < size:
        data += os.read(pipe, size - len(data)) or sys.exit("the agent is gone")
    return data
pipe = int(sys.argv[1])
for name in ("agent", "agent.payload"):
    sys.modules[name] = type(sys)(name)
for name, code in marshal.loads(read(int(read(8)))):
    module = sys.modules["agent." + name] = type(sys)("agent." + name)
    module.__package__ = module.__name__.rpartition(".")[0]
    exec(code, module.__dict__)
sys.modules["agent.payload." + sys.argv[2]].main(pipe, sys.argv[3])
"""
# Isolated and without site-packages: it imports nothing of the user's, and starts faster.
_PYTHON = (sys.executable, "-I", "-S", "-c", _BOOT)


@cache
def _program() -> bytes:
    """Return the supervisor's compiled modules in the form that its start-up code reads.

    They go through a pipe because the agent may be one zip file, and Python can start only its main module.
    Compiling them for each payload would take longer than starting it.
    """
    package = __name__.rpartition(".payload.")[0]
    modules = []
    for name in _MODULES:
        spec = importlib.util.find_spec(f"{package}.{name}")
        modules.append((name, spec.loader.get_code(spec.name)))  # type: ignore[union-attr]
    return _framed(tuple(modules))


def _framed(value: Any) -> bytes:
    document = marshal.dumps(value)
    return b"%08d" % len(document) + document


@dataclass(frozen=True)
class Ended:
    """The end of a payload. ``error`` is empty after success; times are in s, ``max_rss`` is in MB.

    ``max_workdir`` is the most that the payload added to its directory, in MB. ``disk_io`` is its rate of
    reading from disks and writing to them, in kB/s. Both are None without measurements. ``points`` are its
    time line. ``note`` is a remark on a payload that ended well. ``kind`` is how it failed, as in
    ``Report``. ``disk_room`` are the fewest MB that the disk had free, beside what the payload
    had written.
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
    kind: str = "payload"
    disk_room: float = inf


@dataclass(frozen=True)
class Order:
    """A command, its environment and directory, and its limits.

    Wall time is in s; memory and data added to the directory are in MB; 0 means no limit. ``keep`` leaves the
    directory in place even if the agent is gone. ``cut`` drops the middle of very long standard output and
    error. With ``strict_processes`` the payload fails if it leaves processes behind. They are killed in any
    case. ``stdin`` is a file in the directory; empty: nothing. ``alone`` means that the pilot runs no other
    payload beside this one.
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
    stdin: str = ""
    cores: int = 1
    alone: bool = False
    group: Mapping[str, Any] = field(default_factory=dict)
    view: View = UNCONTAINED

    @property
    def program(self) -> tuple[Sequence[str], Path, str, View]:
        """The command, and the directory, search path and view where it finds its program."""
        return self.command, self.directory, self.environment.get("PATH", ""), self.view

    def document(self, lease_end: float) -> bytes:
        """Return the order in the form that the supervisor reads."""
        return _framed(
            {
                "command": tuple(self.command),
                "environment": dict(self.environment),
                "directory": str(self.directory),
                "stdin": self.stdin,
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
        with_program = view.mechanism == "bubblewrap"
        return {
            "mechanism": view.mechanism,
            "binds": tuple((bind.source, bind.target, bind.writable) for bind in view.binds),
            "links": tuple(view.links),
            "bubblewrap": view.bubblewrap,
            "python": _PYTHON if with_program else (),
            "program": _program() if with_program else b"",
        }


class Payload:
    """A payload below its supervisor process. It is ``lost`` if the supervisor ended without a result."""

    def __init__(self, order: Order, lease_end: float) -> None:
        self.order = order
        self.lost = False
        self._points: tuple[Point, ...] = ()
        self._lease_end = lease_end
        self._started = now()
        self._kills_before = oom_kills()
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
            # A stopped supervisor does not read: later messages must not block the agent.
            os.set_blocking(self._process.stdin.fileno(), False)

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._process.pid

    def renew(self, lease_end: float) -> None:
        """Let the payload live until then. Small extensions send no message."""
        if lease_end > self._lease_end + 0.5 and not self._stop_reason:
            self._lease_end = lease_end
            self._tell(b"%f\n" % lease_end)

    def points_so_far(self) -> tuple[Point, ...]:
        """Return the time line as of the previous call, and ask for a new one."""
        self._tell(b"points\n")
        return self._points

    def stop(self, reason: str) -> None:
        """Kill the payload. ``ended`` then returns ``reason`` as its error."""
        if not self._stop_reason:
            self._stop_reason = reason
            self._stop_by = now()
            self._tell(b"stop\n")
            if self._process.stdin:
                self._process.stdin.close()

    async def ended(self) -> Ended:
        """Wait until the supervisor has ended. Unless it is ``lost``, the whole payload has ended too."""
        answer = asyncio.create_task(self._read())
        # The supervisor acts by itself. This is for one that cannot, because it was stopped or swaps.
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
        cause, error = "stopped", self._stop_reason
        if not error:
            cause, error = "ended", "supervisor killed; its payload was killed with it"
            if memory_cause(None, self._slot_kills(), 0, 0):
                cause, error = "slot memory", out_of_memory(error)
        kind = _KINDS.get(cause, Ended.kind)
        return Ended(error=error, wall_seconds=round(now() - self._started, 3), kind=kind)

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
            log.warning("supervisor %d does not read its messages", self.pid)

    async def _read(self) -> dict[str, Any] | None:
        """Read the supervisor's messages until it ends. Return None if the last one was not the result."""
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
                message = ast.literal_eval(line.decode())
                if isinstance(message, dict):
                    result = message
                else:
                    self._points = tuple(message)
        finally:
            transport.close()
        return result

    def _slot_kills(self) -> int:
        return oom_kills() - self._kills_before

    def _cause(self, result: Mapping[str, Any]) -> tuple[str, Any]:
        """Return the cause of the end, and the number behind it."""
        cause, value, used = result["cause"], result["value"], result["rss"]
        if cause not in ("ended", "processes") or result["status"] is None:
            return cause, value
        code, limit = _exit_code(cause, result["status"]), self.order.memory * MEGABYTE
        lacking = memory_cause(code, self._slot_kills(), used, limit, self.order.alone)
        return (lacking, used) if lacking else (cause, value)

    def _as_ended(self, result: dict[str, Any]) -> Ended:
        status, (cause, value) = result["status"], self._cause(result)
        if result["group_fault"]:
            log.warning("%s: %s", self.order.directory.name, result["group_fault"])
        return Ended(
            error=self._error(cause, value, status),
            exit_code=_exit_code(cause, status),
            cpu_seconds=round(result["cpu"], 3),
            wall_seconds=round(result["wall"], 3),
            max_rss=round(result["rss"] / MEGABYTE, 1),
            max_workdir=round(result["disk"] / MEGABYTE, 3),
            note=_left_behind(value) if cause == "processes" else "",
            disk_io=round(result["io"] / 1000 / max(result["wall"], 1.0), 3),
            points=tuple(result["points"]),
            kind=_KINDS.get(cause, Ended.kind),
            disk_room=result["room"] / MEGABYTE,
        )

    def _error(self, cause: str, value: Any, status: int | None) -> str:
        if cause in ("not contained", "not started"):
            return _start_error(cause, value, self.order)
        if cause == "unmeasured":
            return f"work directory cannot be held to its limit: {value}"
        order, megabytes, group = self.order, value / MEGABYTE, "its control group"
        code = None if status is None else os.waitstatus_to_exitcode(status)
        exited = "" if code is None else _exit_error(code)
        if code is not None and code > 0 and cause in ("ended", "processes"):
            exited += exit_hint(*order.program)
        messages: dict[str, str] = {
            "ended": exited,
            "slot memory": out_of_memory(exited),
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
        return messages[cause]


def _left_behind(count: float) -> str:
    return f"left processes behind: {count:.0f}; they were killed"


def _exit_code(cause: str, status: int | None) -> int | None:
    """Return the payload's exit code: a shell's code if the command does not exist, None if it never ran."""
    if cause == "not started":
        return 127
    return None if status is None else os.waitstatus_to_exitcode(status)


def _start_error(cause: str, value: Any, order: Order) -> str:
    if cause == "not contained":
        return f"payload cannot be contained by {order.view.mechanism}: {value}"
    hint = start_hint(*order.program) if value in (errno.ENOENT, errno.EACCES, errno.ENOTDIR) else ""
    return f"command {order.command[0]!r} cannot be started: {os.strerror(value)}{hint}"


def _exit_error(code: int) -> str:
    if code >= 0:
        return f"payload exited with code {code}" if code else ""
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"


async def sweep(supervisors: Callable[[], set[int]]) -> None:
    """Kill processes that killed supervisors left behind: every child of the agent that is no supervisor.

    The agent adopts orphans (``machine.guard``), so every process that is below it and below no
    supervisor was theirs. Returns when no such process is left.
    """
    while strays := _children() - supervisors():
        for stray in strays:
            for process in [stray, *descendants(stray)]:
                kill(process)
            with suppress(ChildProcessError):
                os.waitpid(stray, os.WNOHANG)
        await asyncio.sleep(0.005)


def _children() -> set[int]:
    children: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        children.update(int(child) for child in (thread / "children").read_text().split())
    return children
