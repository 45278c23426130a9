"""Faults of pilots and of the nodes that they run on."""

import contextlib
import signal
import time
from abc import abstractmethod
from pathlib import Path

import psutil

from tests.chaos.system import TIMEOUTS, System

from .fault import Fault
from .signals import send


class _OfAnAgent(Fault):
    """A fault of a pilot that runs, alone or with all that it started."""

    agent: psutil.Process

    def start(self) -> bool:
        """Begin at a pilot."""
        agents = self.system.agents()
        if not agents:
            return False
        self.agent = self.drawn.choice(agents)
        self.jobs = _jobs(self.agent)
        with contextlib.suppress(psutil.NoSuchProcess):
            self.strike()
        return True

    @abstractmethod
    def strike(self) -> None:
        """Begin at ``agent``."""


class AgentKilled(_OfAnAgent):
    """``kill -9`` of a pilot's process."""

    holds = "its payloads end with it, before another attempt of their jobs begins"
    span = (0.0, 0.1)

    def strike(self) -> None:
        """Kill it alone."""
        self.agent.kill()


class MemoryExceeded(_OfAnAgent):
    """The kernel kills a pilot, or what it starts, because its control group has no memory left."""

    holds = "its jobs begin again elsewhere, as after any end of a pilot"
    span = (3.0, 10.0)

    @classmethod
    def lacking(cls, system: System) -> str:
        """Say whether nobody may make control groups of memory here."""
        return "" if _control_group(system) else "no control group of memory that may be made"

    def strike(self) -> None:
        """Put it into a group which grants no more memory."""
        group = _control_group(self.system)
        assert group
        self.group, limit = group
        self.group.mkdir()
        (self.group / limit).write_text("65536")
        with contextlib.suppress(ProcessLookupError):
            (self.group / "cgroup.procs").write_text(str(self.agent.pid))

    def stop(self) -> None:
        """Remove the group, once all that were in it are gone."""
        left = (psutil.Process(int(pid)) for pid in (self.group / "cgroup.procs").read_text().split())
        psutil.wait_procs(send(left, signal.SIGKILL))
        self.group.rmdir()


class NodeLost(_OfAnAgent):
    """``kill -9`` of a pilot with its supervisors and payloads."""

    holds = "its jobs begin again elsewhere after the heartbeat time-out"
    span = (0.0, 0.1)

    def strike(self) -> None:
        """Kill all, from the leaves up."""
        send(reversed([self.agent, *self.agent.children(recursive=True)]), signal.SIGKILL)


class AgentFrozen(_OfAnAgent):
    """A pilot is stopped for up to twice each time-out, and goes on. Its supervisors and payloads run."""

    holds = "its supervisors end its payloads at the end of their lease"
    span = (1.0, 2 * max(TIMEOUTS))

    def strike(self) -> None:
        """Stop it alone."""
        self.frozen = send([self.agent], signal.SIGSTOP)

    def stop(self) -> None:
        """Let it go on."""
        send(self.frozen, signal.SIGCONT)


class NodeFrozen(AgentFrozen):
    """A pilot with its supervisors and payloads is stopped for up to twice each time-out, and goes on."""

    holds = "no payload runs after its lease"

    def strike(self) -> None:
        """Stop all."""
        self.frozen = send([self.agent, *self.agent.children(recursive=True)], signal.SIGSTOP)


def _jobs(agent: psutil.Process) -> set[int]:
    """Return the jobs of which a pilot runs a payload."""
    found = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in agent.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found |= (
                    {int(child.environ()["PILOTAGE_JOB"])} if "PILOTAGE_JOB" in child.environ() else set()
                )
    return found


def _control_group(system: System) -> tuple[Path, str] | None:
    """Return a new group's path, and the name of its limit of memory; None where nobody may make any."""
    for root, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup", root, f"{system.place.name}-{time.monotonic_ns()}")
        with contextlib.suppress(OSError):
            group.mkdir()
            has_limit = (group / limit).exists()
            group.rmdir()
            if has_limit:
                return group, limit
    return None
